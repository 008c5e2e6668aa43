"""Starting a training, or going on with one."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Literal

import torch

from seq2attn.config.plugin import plugin_modules
from seq2attn.config.trust import allow_code
from seq2attn.data.prepare import PreparedData, prepare
from seq2attn.encoders.bert import BertEmbedding, BertEncoder, BertEncoderConfig, load_bert_weights
from seq2attn.errors import RunError, UserError
from seq2attn.experiment import ExperimentConfig
from seq2attn.io.lock import lock_directory
from seq2attn.models import Seq2Seq, build_model
from seq2attn.models.pretrained_vectors import load_vectors
from seq2attn.models.seq2seq import TokenEmbedding
from seq2attn.models.weights import check_vocabularies
from seq2attn.nn.device import configure_cuda
from seq2attn.run_directory import RunDirectory
from seq2attn.tokenizers.vocabulary import EOS
from seq2attn.tokenizers.wordpiece import WordPieceTokenizer
from seq2attn.training.auto_settings import resolve_auto
from seq2attn.training.batch_size import find_max_tokens
from seq2attn.training.checkpoints.checkpoint import (
    CHECKPOINTS_FOLDER,
    Checkpoint,
    checkpoint_folders,
    read_checkpoint,
    restore,
)
from seq2attn.training.checkpoints.retention import latest_valid_checkpoint, refuse_existing_training
from seq2attn.training.config import TrainingConfig
from seq2attn.training.config_changes import changes_since, keep_config, text_digests
from seq2attn.training.determinism import deterministic
from seq2attn.training.distributed import DistributedContext, init_distributed, training_device
from seq2attn.training.interruption import StopRequest
from seq2attn.training.loss import TrainingLoss
from seq2attn.training.metrics_logger import MetricsLogger
from seq2attn.training.parameter_groups import parameter_groups
from seq2attn.training.train_state import TrainState
from seq2attn.training.trainer import Trainer


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
    started, device = time.monotonic(), training_device(config.training.device)
    allow_code(plugin_modules(config))  # the user's config names them
    run = RunDirectory(config.run_dir)
    exactly = deterministic(config.training.deterministic)
    with (
        exactly,
        init_distributed(device) as world,
        lock_directory(run.folder) if world.is_main_process else nullcontext(),
    ):
        configure_cuda(world.device, tf32=config.training.precision != "float32")
        notes: list[str] = []
        since = _since(run, world, notes.append, resume=resume)
        before = run.load_config() if since else config
        keeps_optimizer = type(before.training.optimizer) is type(config.training.optimizer)
        if since:
            config = _as_begun(config, before)
            notes += _changes(config, run, world, since, new_dev_set=new_dev_set)
        tensorboard = config.training.tensorboard
        reporter = MetricsLogger(run, leads=world.is_main_process, since=since, tensorboard=tensorboard)
        try:
            for note in notes if keeps_optimizer else [*notes, "the new optimizer starts without a state"]:
                reporter.log_session(note)
            stop = StopRequest(config.training.time_limit, started)
            trainer = _trainer(config, run, world, reporter, since, stop, keeps_optimizer=keeps_optimizer)
            with stop:  # what came before has nothing to save: a signal ends it at once
                trainer.train()
        finally:
            reporter.close()
    return run


def _trainer(
    config: ExperimentConfig,
    run: RunDirectory,
    world: DistributedContext,
    reporter: MetricsLogger,
    since: Checkpoint | None,
    stop: StopRequest,
    *,
    keeps_optimizer: bool,
) -> Trainer:
    """All parts of a training, as they were when its checkpoint was saved."""
    prepared = _prepare(config, run, world, reporter, keep_tokenizers=since is not None)
    vocabularies = prepared.source.vocabulary, prepared.target.vocabulary
    if since:
        check_vocabularies(since.model_path, run.folder, vocabularies)
    model = _model(config, prepared, reporter, pretrained=since is None).to(world.device)
    optimizer = config.training.optimizer.build(parameter_groups(model))
    state = restore(since, model, optimizer if keeps_optimizer else None) if since else TrainState()
    state.texts = text_digests(config.data)
    reporter.log_session(_greeting(model, world, state))
    objective = TrainingLoss(model, config.training.label_smoothing, config.training.guided_alignment)
    _check_guided(objective)
    if config.training.batch.tokens == "fit":
        config = _with_tokens(config, _fitting(config, objective, optimizer, prepared, world, reporter))
    config = _with_training(
        config, resolve_auto(config.training, prepared.train.corpus.lengths, world, reporter.log_session)
    )
    if world.is_main_process:
        run.save_config(config)
    return Trainer(config, run, prepared, objective, optimizer, state, world, reporter, stop)


def _since(
    run: RunDirectory,
    world: DistributedContext,
    warn: Callable[[str], None],
    *,
    resume: bool | Literal["if-exists"],
) -> Checkpoint | None:
    """The checkpoint to resume from, which the main process finds."""
    found: Checkpoint | None = None
    if world.is_main_process:
        if resume:
            if checkpoint_folders(run.folder):
                run.check_exists()
            found = latest_valid_checkpoint(run.folder, warn)
        else:
            refuse_existing_training(run.folder)
        if resume is True and found is None:
            raise RunError(f"{run.folder}: has no checkpoint to resume; train without --resume")
    name = world.all_gather(found and found.folder.name)[0]
    return found if world.is_main_process or name is None else read_checkpoint(run.folder / CHECKPOINTS_FOLDER / name)


def _changes(
    config: ExperimentConfig,
    run: RunDirectory,
    world: DistributedContext,
    since: Checkpoint,
    *,
    new_dev_set: bool,
) -> list[str]:
    """A line for each change since the checkpoint; the config until then is kept where there is any."""
    changes = changes_since(since, run, config, new_dev_set=new_dev_set)
    world.barrier()  # until all have read the config that is replaced
    if changes and world.is_main_process:
        keep_config(run, since)
    return changes


def _fitting(
    config: ExperimentConfig,
    objective: TrainingLoss,
    optimizer: torch.optim.Optimizer,
    prepared: PreparedData,
    world: DistributedContext,
    reporter: MetricsLogger,
) -> int:
    """The tokens that the GPU's memory holds. Raises: UserError where there is no GPU."""
    if world.device.type != "cuda":
        raise UserError(
            "`training.batch.tokens: fit` is what the memory of a CUDA GPU holds, and this trains on a CPU: give a"
            " number; 4096 is usual"
        )
    tokens = find_max_tokens(config.training, objective, optimizer, prepared.train.corpus, world)
    reporter.log_session(f"a batch of {tokens:,} tokens fits")
    return tokens


def _with_tokens(config: ExperimentConfig, tokens: int) -> ExperimentConfig:
    batch = config.training.batch.model_copy(update={"tokens": tokens})
    return _with_training(config, config.training.model_copy(update={"batch": batch}))


def _with_training(config: ExperimentConfig, training: TrainingConfig) -> ExperimentConfig:
    return config.model_copy(update={"training": training})


def _as_begun(config: ExperimentConfig, before: ExperimentConfig) -> ExperimentConfig:
    """The config with the numbers that its training began with in the place of `auto` and `fit`."""
    tokens, warmup = (
        before.training.batch.tokens,
        getattr(before.training.lr_schedule, "warmup_updates", None),
    )
    schedule = config.training.lr_schedule
    if isinstance(config.training.batch.tokens, str) and isinstance(tokens, int):
        config = _with_tokens(config, tokens)
    if schedule.kind == before.training.lr_schedule.kind and getattr(schedule, "warmup_updates", None) == "auto":
        schedule = schedule.model_copy(update={"warmup_updates": warmup})
        config = _with_training(config, config.training.model_copy(update={"lr_schedule": schedule}))
    return config


def _prepare(
    config: ExperimentConfig,
    run: RunDirectory,
    world: DistributedContext,
    reporter: MetricsLogger,
    *,
    keep_tokenizers: bool,
) -> PreparedData:
    """The leading process prepares; the others read what it wrote."""

    def start() -> PreparedData:
        return prepare(config.data, config.tokenizer, run.folder, reporter.log_session, keep_tokenizers=keep_tokenizers)

    if world.is_main_process:
        prepared = start()
        run.save_config(config)
    world.barrier()
    return prepared if world.is_main_process else start()


def _model(config: ExperimentConfig, prepared: PreparedData, reporter: MetricsLogger, *, pretrained: bool) -> Seq2Seq:
    """The model as training begins with it; without its pretrained weights where others will take their place."""
    torch.manual_seed(config.training.seed)
    model = build_model(config.model, len(prepared.source.vocabulary), len(prepared.target.vocabulary))
    if pretrained:
        _pretrained(model, config, prepared, reporter)
    return model


def _pretrained(model: Seq2Seq, config: ExperimentConfig, prepared: PreparedData, reporter: MetricsLogger) -> None:
    """Put pretrained weights and vectors where there are any; what scales embeddings is taken out of these first."""
    if isinstance(model.source_embedding, BertEmbedding) and isinstance(model.encoder, BertEncoder):
        assert isinstance(config.model.encoder, BertEncoderConfig)
        assert isinstance(prepared.source, WordPieceTokenizer)  # a rule of the config sees to both
        load_bert_weights(config.model.encoder.path, model.source_embedding, model.encoder, prepared.source.bert_ids)
        reporter.log_session(f"encoder: begins with the weights of {config.model.encoder.path}")
    shared = config.model.embeddings
    for side, path, tokenizer, embedding in (
        ("source", shared.source_vectors, prepared.source, model.source_embedding),
        ("target", shared.target_vectors, prepared.target, model.target_embedding),
    ):
        if path is not None and isinstance(embedding, TokenEmbedding):
            vectors, coverage = load_vectors(path, tokenizer.vocabulary.tokens, shared.dim)
            with torch.no_grad():
                table = embedding.embedding.weight
                table.copy_(torch.where(coverage.is_covered.unsqueeze(1), vectors / embedding.scale, table))
            reporter.log_session(f"{side} vectors: {coverage}")


def _check_guided(objective: TrainingLoss) -> None:
    """Raises UserError when a decoder, perhaps one of a plug-in, lacks the attention that is to be guided."""
    if objective.guided_alignment is None:
        return
    was_training = objective.training
    objective.eval()
    word = torch.full((1, 1), EOS, device=next(objective.parameters()).device)
    with torch.no_grad():
        weights = objective.model(word, word.bool(), word, need_weights=True).cross_attention
    objective.train(was_training)
    if found := objective.guided_alignment.unsupported_reason(*((0, 0) if weights is None else weights.shape[1:3])):
        raise UserError(f"`{'.'.join(filter(None, ('training.guided_alignment', found[0])))}` {found[1]}")


def _greeting(model: Seq2Seq, world: DistributedContext, state: TrainState) -> str:
    parameters = sum(p.numel() for p in model.parameters())
    where = f"{world.device}" + (f" in {world.size} processes" if world.size > 1 else "")
    start = f"going on after update {state.update}" if state.update else "starting"
    return f"{start}: {parameters:,} parameters on {where}"
