"""Start of a training, or its resumption."""

from contextlib import closing, nullcontext
from dataclasses import replace
from typing import Literal

import torch

from seq2attn.config.plugin import plugin_modules
from seq2attn.data.fingerprint import file_digest
from seq2attn.data.prepare import prepare
from seq2attn.data.prepared_data import PREPARED, PreparedData, load_prepared
from seq2attn.errors import RunError, UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.experiment.training_config import TrainingConfig
from seq2attn.io.lock import lock_directory
from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.models import Seq2Seq
from seq2attn.models.build import check_vocabularies, count_parameters
from seq2attn.nn.device import configure_cuda, deterministic
from seq2attn.nn.packing import Sequences
from seq2attn.search.search_config import BeamConfig, LengthsConfig
from seq2attn.search.translate_ids import translate_ids
from seq2attn.tokenizers.vocabulary import EOS, UNK
from seq2attn.training.checkpoints.checkpoint import CHECKPOINTS_FOLDER, Checkpoint, checkpoint_folders, restore
from seq2attn.training.checkpoints.retention import latest_valid_checkpoint, refuse_existing_files
from seq2attn.training.config_changes import Resumption, check_processes, read_resumption, save_config, text_digests
from seq2attn.training.distributed import DistributedContext, StopRequest, init_distributed, training_device
from seq2attn.training.initial_weights import check_parts
from seq2attn.training.loop import Trainer
from seq2attn.training.memory import MemoryTrial
from seq2attn.training.metrics_logger import MetricsLogger, Session
from seq2attn.training.plan import Speed
from seq2attn.training.resolve import resolve_config
from seq2attn.training.speed import build_parts, measure_speed
from seq2attn.training.train_state import TrainState

TRIAL_SECONDS = 5.0
"""Time to measure the speed of a training in that a time can end."""


def train(
    experiment: ExperimentConfig, *, resume: bool | Literal["if-exists"] = False, new_dev_set: bool = False
) -> RunDirectory:
    """The run directory of an experiment, with its model trained.

    With `resume`, training continues from the latest checkpoint of the run; with `"if-exists"`, if there is one.
    Changes of the config since that checkpoint are logged; another dev set is refused unless `new_dev_set`.

    Raises RunError if the run already has a training, if there is none to resume, or if another process is training in
    it; TrainingInterrupted if a signal or `training.time_limit` ended it early, with a checkpoint saved.
    """
    training = experiment.training
    stop = StopRequest(training.time_limit)
    run = RunDirectory(experiment.run_dir)
    check_parts(experiment, needs_initial_run=not (resume and checkpoint_folders(run.folder)))
    device = training_device(training.device)
    with (
        deterministic(training.deterministic),
        init_distributed(device) as distributed,
        lock_directory(run.folder) if distributed.is_main_process else nullcontext(),
    ):
        check_processes(experiment, distributed)
        checkpoint, warnings = _find_checkpoint(run, distributed, resume=resume)
        since = None if checkpoint is None else read_resumption(checkpoint, run, experiment, new_dev_set=new_dev_set)
        is_main, tensorboard = distributed.is_main_process, training.tensorboard
        logger = MetricsLogger(run, is_main_process=is_main, since=checkpoint, tensorboard=tensorboard)
        with closing(logger):
            for warning in warnings:
                logger.log_session(warning)
            trainer = _build_trainer(experiment, Session(run, distributed, logger, stop), since)
            with stop:  # before, there is nothing to save, and a signal ends the process
                trainer.train()
    return run


def _find_checkpoint(
    run: RunDirectory, distributed: DistributedContext, *, resume: bool | Literal["if-exists"]
) -> tuple[Checkpoint | None, list[str]]:
    """The checkpoint to resume from, chosen by the main process, and warnings about corrupt ones."""
    warnings: list[str] = []
    checkpoint: Checkpoint | None = None
    if distributed.is_main_process:
        if resume:
            if checkpoint_folders(run.folder):
                run.check_exists()
            checkpoint = latest_valid_checkpoint(run.folder, warnings.append)
        if checkpoint is None:
            refuse_existing_files(run.folder)
        if resume is True and checkpoint is None:
            raise RunError(f"{run.folder}: has no checkpoint to resume; train without ``resume``")
    checkpoint = distributed.all_gather(checkpoint)[0]
    return checkpoint and replace(checkpoint, folder=run.folder / CHECKPOINTS_FOLDER / checkpoint.folder.name), warnings


def _build_trainer(experiment: ExperimentConfig, session: Session, since: Resumption | None) -> Trainer:
    """All components of a training, restored from the checkpoint if there is one."""
    run, distributed, log = session.run, session.distributed, session.logger.log_session
    configure_cuda(distributed.device, tf32=experiment.training.precision != "float32")
    prepared = _prepare(experiment, session, is_resumed=since is not None)
    if since is not None:
        check_vocabularies(since.checkpoint.model_path, run.folder, prepared.tokenizers.vocabularies)
    if since is None and experiment.training.batch.tokens == "fit":
        experiment = _fit_batches(experiment, prepared, session)

    def measure(training: TrainingConfig) -> Speed:
        log("measuring the speed of some updates and validations, for the plan of the training")
        measured = experiment.model_copy(update={"training": training})
        return measure_speed(measured, prepared, distributed, TRIAL_SECONDS)

    resolved = resolve_config(experiment, prepared.train, distributed, measure, since)
    for note in resolved.notes:
        log(note)
    experiment, state = resolved.experiment, resolved.state
    torch.manual_seed(experiment.training.seed)
    loss_module, optimizer = build_parts(experiment, prepared, distributed.device, log if since is None else None)
    model = loss_module.model
    if since is not None:
        restore(since.checkpoint, model, optimizer if resolved.keeps_optimizer else None)
    if plugin_modules(experiment.model):
        _check_search(model)
    log(_start_message(model, distributed, state) + resolved.outlook)
    _check_guided_alignment(loss_module)
    if distributed.is_main_process:
        save_config(run, experiment, since, has_changes=resolved.has_changes)
    state = replace(state, texts=text_digests(experiment.data) if since is None else since.texts)
    return Trainer(experiment, prepared, loss_module, optimizer, state, session)


def _prepare(experiment: ExperimentConfig, session: Session, *, is_resumed: bool) -> PreparedData:
    """The prepared text, by the main process; the others read its files, once they are written."""
    run, distributed, log = session.run, session.distributed, session.logger.log_session
    if distributed.is_main_process:
        prepared = prepare(experiment.data, experiment.tokenizer, run.folder, log, keep_tokenizers=is_resumed)
    distributed.barrier()
    if not distributed.is_main_process:
        prepared = load_prepared(run.folder)
    distributed.check_same({f"SHA-256 of {PREPARED} in `run_dir`": file_digest(run.folder / PREPARED)})
    return prepared


def _fit_batches(experiment: ExperimentConfig, prepared: PreparedData, session: Session) -> ExperimentConfig:
    """The config with the largest batch that fits in memory, by trials with a model of random weights."""
    distributed = session.distributed
    if distributed.device.type != "cuda":
        raise UserError("`training.batch.tokens: fit` needs a CUDA GPU; set a number: 4096 is usual")
    trial = MemoryTrial(experiment.training, *build_parts(experiment, prepared, distributed.device), distributed)
    tokens = trial.find_max_tokens(prepared.train.epoch_corpus(0, 0), prepared.train.rows(0, 0))
    training = experiment.training.with_batch_tokens(tokens)
    session.logger.log_session(f"batch: {training.batch.tokens:,} tokens, by the memory of the GPU")
    return experiment.model_copy(update={"training": training})


def _check_guided_alignment(loss_module: TrainingLoss) -> None:
    """Raises UserError if the decoder, perhaps a plug-in, lacks the attention that is to be guided."""
    if loss_module.guided_alignment is None:
        return
    loss_module.eval()
    token = torch.full((1, 1), EOS, device=next(loss_module.parameters()).device)
    with torch.no_grad():
        weights = loss_module.model(token, Sequences(token.bool()), token, need_weights=True).cross_attention
    loss_module.train()
    if mistake := loss_module.guided_alignment.unsupported(*((0, 0) if weights is None else weights.shape[1:3])):
        raise UserError(f"`{mistake.field}` {mistake.message}")


def _check_search(model: Seq2Seq) -> None:
    """Two steps of a beam search, so that errors of a plug-in show before the first validation."""
    search = BeamConfig(beam_size=2, lengths=LengthsConfig(max_length=2))
    translate_ids(model.eval(), [[UNK], [UNK, UNK]], search, budget=8)
    model.train()


def _start_message(model: Seq2Seq, distributed: DistributedContext, state: TrainState) -> str:
    processes = f" in {distributed.size} processes" if distributed.size > 1 else ""
    start = f"resuming after update {state.update}" if state.update else "starting"
    return f"{start}: {count_parameters(model):,} parameters on {distributed.device}{processes}"
