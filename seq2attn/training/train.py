"""Start of a training, or its resumption."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal

import torch

from seq2attn.config.base import FieldError
from seq2attn.config.plugin import allow_code, plugin_modules
from seq2attn.data.fingerprint import file_digest
from seq2attn.data.prepare import PREPARED, load_prepared, prepare
from seq2attn.errors import RunError, UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.experiment.training_config import TrainingConfig
from seq2attn.io.lock import lock_directory
from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.models import Seq2Seq, build_model
from seq2attn.models.build import check_vocabularies, count_parameters
from seq2attn.nn.device import configure_cuda, deterministic
from seq2attn.nn.packing import Sequences
from seq2attn.optim.optimizers import parameter_groups
from seq2attn.search.search_config import BeamConfig, LengthsConfig
from seq2attn.search.translate_ids import translate_ids
from seq2attn.tokenizers.vocabulary import EOS, UNK
from seq2attn.training.auto_settings import has_auto, resolve_auto, resolve_length_ratio, total_is_auto
from seq2attn.training.checkpoints.checkpoint import (
    CHECKPOINTS_FOLDER,
    Checkpoint,
    checkpoint_folders,
    read_checkpoint,
    restore,
)
from seq2attn.training.checkpoints.retention import latest_valid_checkpoint, refuse_existing_files
from seq2attn.training.config_changes import (
    changes_since,
    check_processes,
    config_before,
    keep_config,
    remove_kept_configs,
    text_digests,
)
from seq2attn.training.distributed import DistributedContext, init_distributed, training_device
from seq2attn.training.initial_weights import check_parts, freeze_parameters, load_initial_weights
from seq2attn.training.loop import Trainer
from seq2attn.training.memory import MemoryTrial
from seq2attn.training.metrics_logger import MetricsLogger
from seq2attn.training.minimum_risk import build_loss
from seq2attn.training.session import Session, StopRequest
from seq2attn.training.train_state import TrainState

UPDATE_PARTS = tuple(
    f"{part}."
    for part in ("training.max_duration", "training.batch", "training.lr_schedule", "data.train", "data.filters")
)
"""Beginnings of the keys that change the number of updates."""


def train(
    config: ExperimentConfig, *, resume: bool | Literal["if-exists"] = False, new_dev_set: bool = False
) -> RunDirectory:
    """The run directory of a config, with its model trained.

    With `resume`, training continues from the latest checkpoint of the run; with `"if-exists"`, if there is one.
    Changes of the config since that checkpoint are logged; another dev set is refused unless `new_dev_set`.

    Raises:
        RunError: the run already has a training, there is none to resume, or another process is training in it.
        TrainingInterrupted: a signal or `training.time_limit` ended it early; the checkpoint is saved.
    """
    stop, device = StopRequest(config.training.time_limit), training_device(config.training.device)
    allow_code(plugin_modules(config))  # plug-ins in the user's own config are trusted
    run = RunDirectory(config.run_dir)
    _check(config, is_resumed=bool(resume and checkpoint_folders(run.folder)))
    with (
        deterministic(config.training.deterministic),
        init_distributed(device) as world,
        lock_directory(run.folder) if world.is_main_process else nullcontext(),
    ):
        check_processes(config, world)
        since, notes = _find_checkpoint(run, world, resume=resume)
        keeps_optimizer, is_auto = True, total_is_auto(config.training)
        if since:
            before = config_before(since, run)
            config = _resolve_as_before(config, before)
            changes = changes_since(since, before, run, config, new_dev_set=new_dev_set)
            world.barrier()  # all processes have read the config, which is replaced now
            if world.is_main_process:
                keep_config(run, since, has_changes=bool(changes))
            notes += changes.values()
            if (size := since.train_state.num_processes) != world.size:
                notes.append(f"processes: {size} before, {world.size} now; an update has another size")
            elif not any(f"{key}.".startswith(UPDATE_PARTS) for key in changes):  # epochs differ with BPE-dropout
                config = _with_training(config, lr_schedule=before.training.lr_schedule)
            if not (keeps_optimizer := _same_optimizer_state(before.training, config.training)):
                averages = "" if before.training.ema_decay is None else "; the weights continue from their averages"
                notes.append(f"the new optimizer starts without a state{averages}")
        elif world.is_main_process:
            remove_kept_configs(run)
        tensorboard = config.training.tensorboard
        reporter = MetricsLogger(run, is_main_process=world.is_main_process, since=since, tensorboard=tensorboard)
        try:
            for note in notes:
                reporter.log_session(note)
            session = Session(run, world, reporter, stop)
            trainer = _build_trainer(config, session, since, is_auto, keeps_optimizer=keeps_optimizer)
            with stop:  # before, there is nothing to save, and a signal ends the process
                trainer.train()
        finally:
            reporter.close()
    return run


def _check(config: ExperimentConfig, *, is_resumed: bool) -> None:
    """Raises UserError for names and sizes of parts that do not fit, or no initial run, before anything is written."""
    try:
        check_parts(config, needs_initial_run=not is_resumed)
    except FieldError as error:
        raise UserError(f"`{error.field}`: {error.message}") from None


def _find_checkpoint(
    run: RunDirectory, world: DistributedContext, *, resume: bool | Literal["if-exists"]
) -> tuple[Checkpoint | None, list[str]]:
    """The checkpoint to resume from, chosen by the main process, and warnings about corrupt ones."""
    warnings: list[str] = []
    checkpoint: Checkpoint | None = None
    if world.is_main_process:
        if resume:
            if checkpoint_folders(run.folder):
                run.check_exists()
            checkpoint = latest_valid_checkpoint(run.folder, warnings.append)
        if checkpoint is None:
            refuse_existing_files(run.folder)
        if resume is True and checkpoint is None:
            raise RunError(f"{run.folder}: has no checkpoint to resume; train without --resume")
    name = world.all_gather(checkpoint and checkpoint.folder.name)[0]
    if name is not None and not world.is_main_process:
        checkpoint = read_checkpoint(run.folder / CHECKPOINTS_FOLDER / name)
    return checkpoint, warnings


def _build_trainer(
    config: ExperimentConfig,
    session: Session,
    since: Checkpoint | None,
    is_auto: bool,
    *,
    keeps_optimizer: bool,
) -> Trainer:
    """All components of a training, restored from the checkpoint if there is one."""
    run, world, log = session.run, session.distributed, session.logger.log_session
    configure_cuda(world.device, tf32=config.training.precision != "float32")
    if world.is_main_process:
        prepared = prepare(config.data, config.tokenizer, run.folder, log, keep_tokenizers=since is not None)
        world.barrier()
    else:  # reads the files of the main process, once they are written
        world.barrier()
        prepared = load_prepared(run.folder)
    world.check_same({f"SHA-256 of {PREPARED} in `run_dir`": file_digest(run.folder / PREPARED)})
    vocabularies = prepared.source.vocabulary, prepared.target.vocabulary
    if since:
        check_vocabularies(since.model_path, run.folder, vocabularies)
    torch.manual_seed(config.training.seed)
    model = build_model(config.model, *map(len, vocabularies))
    if since is None:
        load_initial_weights(model, config, prepared, log)
    freeze_parameters(model, config.training)
    model.to(world.device)
    optimizer = config.training.optimizer.build(parameter_groups(model, config.training.lr_scales))
    state = restore(since, model, optimizer if keeps_optimizer else None) if since else TrainState()
    texts = text_digests(config.data)
    state = replace(state, texts=texts, num_processes=world.size, total_is_auto=is_auto)
    if plugin_modules(config.model):
        _check_search(model)
    log(_start_message(model, world, state))
    objective = build_loss(model, config, prepared)
    _check_guided_alignment(objective)
    train_set = prepared.train
    # BPE-dropout makes an epoch longer; its segmentation takes minutes for a million pairs. The seed is 0 so that runs
    # with different seeds have the same schedule.
    corpus = train_set.epoch_corpus(0, 0) if has_auto(config.training) else train_set.corpus
    rows = train_set.rows(0, 0)
    if config.training.batch.tokens == "fit":
        if world.device.type != "cuda":
            raise UserError("`training.batch.tokens: fit` needs a CUDA GPU; set a number: 4096 is usual")
        tokens = MemoryTrial(config.training, objective, optimizer, world).find_max_tokens(corpus, rows)
        batch = config.training.batch.with_tokens(tokens)
        log(f"batch: {batch.tokens:,} tokens, by the memory of the GPU")
        config = _with_training(config, batch=batch)
    training = resolve_auto(config.training, corpus.lengths[rows], world, state, log)
    search = resolve_length_ratio(config.search, train_set.corpus.lengths, log)
    config = config.model_copy(update={"training": training, "search": search})
    if world.is_main_process:
        run.save_config(config)
    return Trainer(config, prepared, objective, optimizer, state, session)


def _with_training(config: ExperimentConfig, **changes: Any) -> ExperimentConfig:
    return config.model_copy(update={"training": config.training.model_copy(update=changes)})


def _resolve_as_before(config: ExperimentConfig, before: ExperimentConfig) -> ExperimentConfig:
    """The config with the numbers of the run for `auto` and `fit`."""
    tokens, schedule = before.training.batch.tokens, config.training.lr_schedule
    if isinstance(config.training.batch.tokens, str) and isinstance(tokens, int):
        config = _with_training(config, batch=config.training.batch.with_tokens(tokens))
    if schedule.kind == before.training.lr_schedule.kind and getattr(schedule, "warmup_updates", None) == "auto":
        warmup = getattr(before.training.lr_schedule, "warmup_updates", "auto")
        config = _with_training(config, lr_schedule=schedule.model_copy(update={"warmup_updates": warmup}))
    if (lengths := config.search.lengths).max_length_ratio == "auto":
        lengths = lengths.model_copy(update={"max_length_ratio": before.search.lengths.max_length_ratio})
        config = config.model_copy(update={"search": config.search.model_copy(update={"lengths": lengths})})
    return config


def _same_optimizer_state(before: TrainingConfig, now: TrainingConfig) -> bool:
    """True if the optimizer's state of a run suits another config: same kind, same weights, averages or none."""
    return (
        type(before.optimizer) is type(now.optimizer)
        and before.frozen == now.frozen
        and before.lr_scales == now.lr_scales
        and (before.ema_decay is None) == (now.ema_decay is None)
    )


def _check_guided_alignment(objective: TrainingLoss) -> None:
    """Raises UserError if the decoder, perhaps a plug-in, lacks the attention that is to be guided."""
    if objective.guided_alignment is None:
        return
    was_training = objective.training
    objective.eval()
    token = torch.full((1, 1), EOS, device=next(objective.parameters()).device)
    with torch.no_grad():
        weights = objective.model(token, Sequences(token.bool()), token, need_weights=True).cross_attention
    objective.train(was_training)
    if mistake := objective.guided_alignment.unsupported(*((0, 0) if weights is None else weights.shape[1:3])):
        raise UserError(f"`{mistake.field}` {mistake.message}")


def _check_search(model: Seq2Seq) -> None:
    """Two steps of a beam search, so that errors of a plug-in show before the first validation."""
    search = BeamConfig(kind="beam", beam_size=2, lengths=LengthsConfig(max_length=2))
    translate_ids(model.eval(), [[UNK], [UNK, UNK]], search, budget=8)
    model.train()


def _start_message(model: Seq2Seq, world: DistributedContext, state: TrainState) -> str:
    processes = f" in {world.size} processes" if world.size > 1 else ""
    start = f"resuming after update {state.update}" if state.update else "starting"
    return f"{start}: {count_parameters(model):,} parameters on {world.device}{processes}"
