"""The config of a training with numbers for `auto` and `fit`, and what a resumption with changes keeps.

Batches of 4,096 tokens and a warm-up of 4,000 updates are usual for millions of sentence pairs (Vaswani et al. 2017).
With them, 20 epochs of 10,000 pairs are 900 updates, and the learning rate does not reach its maximum. The values are
functions of corpus and config, so two trainings of one config are equal; where a time can end them, also of the speed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from seq2attn.data.batch_planner import Indices, plan_batches
from seq2attn.data.training_set import TrainingSet
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.training_config import TrainingConfig
from seq2attn.io.terminal import plural
from seq2attn.nn.kernels.linear import ROW_MULTIPLE
from seq2attn.optim.lr_schedules import resolve_schedule, total_updates, warmup_updates
from seq2attn.search.search_config import EXTRA_TOKENS, MAX_LENGTH_RATIO, MIN_AUTO_RATIO, SearchConfig
from seq2attn.training.config_changes import Resumption
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.plan import MAX_WARMUP, Plan, Speed, auto_warmup, plan_training
from seq2attn.training.train_state import TrainState

BATCH_TOKENS = (4096, 2048, 1024, 512, 256)
"""Candidates for the batch size, in tokens."""
MIN_UPDATES = 150
"""Minimum number of updates per epoch at the automatic batch size."""
MAX_RATIO = 4
"""Ratio to the automatic batch size from which a configured one causes a warning."""
MAX_UNREACHABLE_SHARE = 0.001
"""Share of the training targets that a search need not be able to produce."""

Lengths = NDArray[np.int64]  # [pairs, 2]
UpdateBatches = list[Indices]
"""The rows of the corpus in each micro-batch of an update."""
UPDATE_PARTS = "training.max_duration.", "training.batch.", "training.lr_schedule.", "data.train.", "data.filters."
"""Beginnings of the keys that change the number of updates."""


@dataclass(frozen=True)
class Resolved:
    """The config of a training, as it is saved, and what was found on the way."""

    experiment: ExperimentConfig  # with numbers for `auto` and `fit`
    notes: list[str]  # for the log
    state: TrainState  # from which training goes on
    has_changes: bool = False  # of config or text, since the checkpoint
    keeps_optimizer: bool = True  # the state of the optimizer suits the config
    keeps_plan: bool = False  # the numbers of updates are those of the checkpoint
    outlook: str = ""  # what will happen until when, where a time can end the training


def resolve_config(
    experiment: ExperimentConfig,
    train: TrainingSet,
    distributed: DistributedContext,
    measure: Callable[[TrainingConfig], Speed],
    since: Resumption | None = None,
) -> Resolved:
    """The config for a training set, as a function of the arguments: a resumption keeps the numbers of its run.

    `measure`: the speed, used where a time can end the training.
    """
    resolved = Resolved(experiment, [], TrainState())
    if since is not None:
        resolved = _resume(experiment, since, distributed.size)
    is_auto = total_updates(experiment.training.lr_schedule) == "auto"
    planned = resolved.state.planned_updates if resolved.keeps_plan else None
    state = replace(resolved.state, num_processes=distributed.size, total_is_auto=is_auto, planned_updates=planned)
    training = resolved.experiment.training
    lengths, measure_new = first_epoch_lengths(train, training), None if resolved.keeps_plan else measure
    training, plan, training_notes = resolve_training(training, lengths, distributed, state, measure_new)
    if not resolved.keeps_plan:
        training_notes += ["the rest of the training is planned anew"] if since and plan.speed else []
        state = replace(state, planned_updates=plan.updates if is_auto and plan.speed else None)
    search, search_notes = resolve_length_ratio(resolved.experiment.search, train.corpus.lengths)
    experiment = resolved.experiment.model_copy(update={"training": training, "search": search})
    notes = [*resolved.notes, *training_notes, *search_notes]
    return replace(resolved, experiment=experiment, notes=notes, state=state, outlook=plan.outlook())


def _resume(experiment: ExperimentConfig, since: Resumption, num_processes: int) -> Resolved:
    """The config with the numbers of the run for `auto` and `fit`, and notes of all that has changed."""
    before, training = since.experiment.training, experiment.training
    if isinstance(training.batch.tokens, str):
        training = training.with_batch_tokens(before.batch.require_tokens())
    schedule, search = training.lr_schedule, experiment.search
    if schedule.kind == before.lr_schedule.kind:  # its end is that of the new training
        schedule = resolve_schedule(schedule, warmup=warmup_updates(before.lr_schedule), total="auto")
        training = training.model_copy(update={"lr_schedule": schedule})
    planned = training
    if training.validation.every == "auto":
        planned = training.with_value("validation.every", before.validation.every)
    if search.lengths.max_length_ratio == "auto":
        search = search.with_value("lengths.max_length_ratio", since.experiment.search.lengths.max_length_ratio)
    changes = since.changes(experiment.model_copy(update={"training": planned, "search": search}))
    notes, keeps_plan = list(changes.values()), False
    if (size := since.checkpoint.train_state.num_processes) != num_processes:
        notes.append(f"processes: {size} before, {num_processes} now; an update has another size")
    elif not any(f"{key}.".startswith(UPDATE_PARTS) for key in changes):  # epochs differ with BPE-dropout
        training, keeps_plan = planned.model_copy(update={"lr_schedule": before.lr_schedule}), True
    # the optimizer's state suits the same kind, the same weights, and averages or none
    old, new = ((type(one.optimizer), one.frozen, one.lr_scales, one.ema_decay is None) for one in (before, training))
    keeps_optimizer = old == new
    if not keeps_optimizer:
        averages = "" if before.ema_decay is None else "; the weights continue from their averages"
        notes.append(f"the new optimizer starts without a state{averages}")
    experiment = experiment.model_copy(update={"training": training, "search": search})
    return Resolved(experiment, notes, since.checkpoint.train_state, bool(changes), keeps_optimizer, keeps_plan)


def has_auto(training: TrainingConfig) -> bool:
    """True if the batch size or the schedule depends on the lengths of the pairs."""
    schedule = training.lr_schedule
    values = warmup_updates(schedule), total_updates(schedule), training.batch.tokens
    return any(isinstance(value, str) for value in values)


def first_epoch_lengths(train: TrainingSet, training: TrainingConfig) -> Lengths:
    """The lengths of the pairs of the first epoch, as often as they are in it: those that `auto` depends on."""
    # BPE-dropout makes an epoch longer; its segmentation takes minutes for a million pairs. The seed is 0 so that runs
    # with different seeds have the same schedule.
    corpus = train.epoch_corpus(0, 0) if has_auto(training) else train.corpus
    return corpus.lengths[train.rows(0, 0)]


def resolve_training(
    training: TrainingConfig,
    lengths: Lengths,
    distributed: DistributedContext,
    state: TrainState,
    measure: Callable[[TrainingConfig], Speed] | None = None,
) -> tuple[TrainingConfig, Plan, list[str]]:
    """The config with numbers for `auto`, the plan, and notes about these and numbers that do not suit the corpus.

    `lengths` are those of the pairs of an epoch, and `state` is that from which training goes on.
    """
    notes = []
    suggested = auto_batch_tokens(lengths, training.batch.gradient_accumulation * distributed.size)
    if training.batch.tokens == "auto":
        training = training.with_batch_tokens(suggested)
        notes.append(f"batch: {plural(suggested, 'token')}, by the size of the corpus")
    per_epoch = len(plan_updates(lengths, training, distributed, epoch=0))
    if (tokens := training.batch.require_tokens()) >= MAX_RATIO * suggested and per_epoch < MIN_UPDATES:
        notes.append(
            f"warning: batches of {plural(tokens, 'token')} make {plural(per_epoch, 'update')} per epoch of this"
            f" corpus; `training.batch.tokens: {suggested}` suits its size"
        )
    plan = plan_training(training, per_epoch, state, measure)
    updates, schedule = plan.updates or 1, training.lr_schedule
    warmup = auto_warmup(updates)
    if total_updates(schedule) == "auto":
        notes.append(f"cosine schedule: {plural(updates, 'update')}")
    if warmup_updates(schedule) == "auto":
        share = "a tenth" if warmup < MAX_WARMUP else "of a training"
        notes.append(f"warm-up: {plural(warmup, 'update')}, {share} of about {updates:,}")
    schedule = resolve_schedule(schedule, warmup=warmup, total=updates)
    training = training.with_value("lr_schedule", schedule).with_value("validation.every", plan.validation_every)
    if plan.speed is None and state.planned_updates is not None:  # whose end is not that of this plan
        return training, plan.kept(state, state.planned_updates), notes
    return training, plan, notes + plan.warnings(schedule)


def resolve_length_ratio(search: SearchConfig, pairs: Lengths) -> tuple[SearchConfig, list[str]]:
    """The search with a number for an automatic `max_length_ratio`, by the lengths of the training pairs, and notes.

    One is a warning if the search cannot produce more than a thousandth of their targets.
    """
    notes, (source, target) = [], pairs.T
    most = 1 - MAX_UNREACHABLE_SHARE
    needed = math.ceil(10 * np.quantile((target - EXTRA_TOKENS) / source, most, method="higher")) / 10
    if search.lengths.max_length_ratio == "auto":
        ratio = max(MIN_AUTO_RATIO, min(needed, 2 * float(target.sum() / source.sum()), MAX_LENGTH_RATIO))
        if ratio > MIN_AUTO_RATIO:
            notes.append(f"search: at most {ratio:.1f} tokens for each token of the source, by the training text")
        search = search.with_value("lengths.max_length_ratio", round(ratio, 1))
    limits = search.lengths.limits(torch.from_numpy(source))
    num_tokens = torch.from_numpy(target) + 1
    is_unreachable = (num_tokens > limits.max_length) | (num_tokens < limits.min_length)
    if (count := int(is_unreachable.sum())) > MAX_UNREACHABLE_SHARE * len(pairs):
        longest = np.quantile(target, most, method="higher")
        notes.append(
            f"warning: {count:,} of the {plural(len(pairs), 'training target')} cannot be produced, as"
            f" `search.lengths` does not allow their lengths; `max_length: {longest}` and `max_length_ratio:"
            f" {max(needed, MIN_AUTO_RATIO):g}` allow all but a thousandth of the long ones"
        )
    return search, notes


def auto_batch_tokens(lengths: Lengths, batches_per_update: float) -> int:
    """The largest batch size that allows `MIN_UPDATES` per epoch, or the smallest."""
    tokens = int((lengths.max(axis=1) + 1).sum())
    allowed = (size for size in BATCH_TOKENS if tokens >= MIN_UPDATES * size * batches_per_update)
    return next(allowed, BATCH_TOKENS[-1])


def plan_updates(
    lengths: Lengths, training: TrainingConfig, distributed: DistributedContext, *, epoch: int
) -> list[UpdateBatches]:
    """The updates of an epoch in this process, a function of the arguments only."""
    num_micro_batches = training.batch.num_micro_batches(distributed.device, training.precision)
    tokens = training.batch.require_tokens() // num_micro_batches
    rows = plan_batches(
        lengths,
        tokens=tokens,
        seed=training.seed,
        epoch=epoch,
        rank=distributed.rank,
        num_ranks=distributed.size,
        row_multiple=ROW_MULTIPLE,
    )
    size = num_micro_batches * training.batch.gradient_accumulation
    return [rows[start : start + size] for start in range(0, len(rows), size)]
