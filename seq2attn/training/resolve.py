"""The config of a training with numbers for `auto` and `fit`, and what a resumption with changes keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from seq2attn.data.training_set import TrainingSet
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.training_config import TrainingConfig
from seq2attn.optim.lr_schedules import resolve_schedule, total_updates, warmup_updates
from seq2attn.training.auto_settings import has_auto, resolve_length_ratio, resolve_training
from seq2attn.training.config_changes import Resumption
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.train_state import TrainState

UPDATE_PARTS = tuple(
    f"{part}."
    for part in ("training.max_duration", "training.batch", "training.lr_schedule", "data.train", "data.filters")
)
"""Beginnings of the keys that change the number of updates."""


@dataclass(frozen=True)
class Resolved:
    """The config of a training, as it is saved, and what was found on the way."""

    experiment: ExperimentConfig  # with numbers for `auto` and `fit`
    notes: list[str]  # for the log
    total_is_auto: bool  # the schedule had `total_updates: auto`
    has_changes: bool = False  # of config or text, since the checkpoint
    keeps_optimizer: bool = True  # the state of the optimizer suits the config


def resolve_config(
    experiment: ExperimentConfig,
    train: TrainingSet,
    distributed: DistributedContext,
    since: Resumption | None = None,
    fitting_tokens: int | None = None,
) -> Resolved:
    """The config for a training set, as a function of the arguments: a resumption keeps the numbers of its run.

    `fitting_tokens`: of the largest batch that fits in memory, for `training.batch.tokens: fit`.
    """
    total_is_auto = total_updates(experiment.training.lr_schedule) == "auto"
    resolved = Resolved(experiment, [], total_is_auto)
    state = TrainState()
    if since is not None:
        state = since.checkpoint.train_state
        resolved = _resume(experiment, since, distributed.size)
    experiment, notes = resolved.experiment, resolved.notes
    if fitting_tokens is not None:
        batch = experiment.training.batch.with_tokens(fitting_tokens)
        notes.append(f"batch: {batch.tokens:,} tokens, by the memory of the GPU")
        experiment = _with_training(experiment, batch=batch)
    # BPE-dropout makes an epoch longer; its segmentation takes minutes for a million pairs. The seed is 0 so that runs
    # with different seeds have the same schedule.
    corpus = train.epoch_corpus(0, 0) if has_auto(experiment.training) else train.corpus
    lengths = corpus.lengths[train.rows(0, 0)]
    training, training_notes = resolve_training(experiment.training, lengths, distributed, state)
    search, search_notes = resolve_length_ratio(experiment.search, train.corpus.lengths)
    experiment = experiment.model_copy(update={"training": training, "search": search})
    notes = [*notes, *training_notes, *search_notes]
    return Resolved(experiment, notes, total_is_auto, resolved.has_changes, resolved.keeps_optimizer)


def _resume(experiment: ExperimentConfig, since: Resumption, num_processes: int) -> Resolved:
    """The config with the numbers of the run, and notes of all that has changed."""
    before = since.experiment.training
    total_is_auto = total_updates(experiment.training.lr_schedule) == "auto"
    experiment = _with_numbers(experiment, since.experiment)
    changes = since.changes(experiment)
    notes = list(changes.values())
    if (size := since.checkpoint.train_state.num_processes) != num_processes:
        notes.append(f"processes: {size} before, {num_processes} now; an update has another size")
    elif not any(f"{key}.".startswith(UPDATE_PARTS) for key in changes):  # epochs differ with BPE-dropout
        experiment = _with_training(experiment, lr_schedule=before.lr_schedule)
    keeps_optimizer = _same_optimizer_state(before, experiment.training)
    if not keeps_optimizer:
        averages = "" if before.ema_decay is None else "; the weights continue from their averages"
        notes.append(f"the new optimizer starts without a state{averages}")
    return Resolved(experiment, notes, total_is_auto, bool(changes), keeps_optimizer)


def _with_numbers(experiment: ExperimentConfig, before: ExperimentConfig) -> ExperimentConfig:
    """The config with the numbers of an earlier one for `auto` and `fit`, but for the end of the schedule."""
    training, tokens = experiment.training, before.training.batch.tokens
    if isinstance(training.batch.tokens, str) and isinstance(tokens, int):
        experiment = _with_training(experiment, batch=training.batch.with_tokens(tokens))
    schedule, old_schedule = training.lr_schedule, before.training.lr_schedule
    if schedule.kind == old_schedule.kind and warmup_updates(schedule) == "auto":
        schedule = resolve_schedule(schedule, warmup=warmup_updates(old_schedule), total="auto")
        experiment = _with_training(experiment, lr_schedule=schedule)
    if (lengths := experiment.search.lengths).max_length_ratio == "auto":
        lengths = lengths.model_copy(update={"max_length_ratio": before.search.lengths.max_length_ratio})
        search = experiment.search.model_copy(update={"lengths": lengths})
        experiment = experiment.model_copy(update={"search": search})
    return experiment


def _with_training(experiment: ExperimentConfig, **changes: Any) -> ExperimentConfig:
    return experiment.model_copy(update={"training": experiment.training.model_copy(update=changes)})


def _same_optimizer_state(before: TrainingConfig, now: TrainingConfig) -> bool:
    """True if the optimizer's state of a run suits another config: same kind, same weights, averages or none."""
    return (
        type(before.optimizer) is type(now.optimizer)
        and before.frozen == now.frozen
        and before.lr_scales == now.lr_scales
        and (before.ema_decay is None) == (now.ema_decay is None)
    )
