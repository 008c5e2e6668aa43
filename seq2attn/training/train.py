"""Starting a training, or going on with one."""

from __future__ import annotations

import torch

from seq2attn.data.prepare import Prepared, prepare
from seq2attn.encoders.bert import BertEmbedding, BertEncoder, BertEncoderConfig, load_bert
from seq2attn.errors import RunError, UserError
from seq2attn.experiment import Experiment
from seq2attn.model import Seq2Seq, build_model
from seq2attn.model.embeddings import Embedding
from seq2attn.model.vectors import load_vectors
from seq2attn.run import Run
from seq2attn.text.vocabulary import EOS
from seq2attn.text.wordpiece import WordPieceTokenizer
from seq2attn.training.checkpoint import Checkpoint, TrainState, list_checkpoints, refuse_trained, resume
from seq2attn.training.distributed import World, join_world
from seq2attn.training.groups import parameter_groups
from seq2attn.training.objective import Objective
from seq2attn.training.report import Reporter
from seq2attn.training.trainer import Trainer
from seq2attn.training.updates import most_tokens
from seq2attn.weights import check_vocabularies


def train(config: Experiment, *, go_on: bool = False) -> Run:
    """Train the model of a config; with `go_on`, from the newest checkpoint of its run.

    Raises RunError when the run already holds a training, or when there is none to go on with.
    """
    run = Run(config.run)
    with join_world() as world:
        checkpoints = _checkpoints(config, run, go_on=go_on)
        if checkpoints:
            config = _as_fitted(config, run.experiment())
        update = checkpoints[-1].state.update if checkpoints else 0
        run.folder.mkdir(parents=True, exist_ok=True)
        reporter = Reporter(run, leads=world.leads, update=update, tensorboard=config.training.tensorboard)
        try:
            prepared = _prepare(config, run, world, reporter, keep_tokenizers=bool(checkpoints))
            vocabularies = prepared.source.vocabulary, prepared.target.vocabulary
            if checkpoints:
                check_vocabularies(checkpoints[-1].model, run.folder, vocabularies)
            torch.manual_seed(config.training.seed)
            model = build_model(config.model, *map(len, vocabularies))
            if not checkpoints:
                _pretrained(model, config, prepared, reporter)
            model.to(world.device)
            optimizer = config.training.optimizer.build(parameter_groups(model))
            state = resume(checkpoints[-1], model, optimizer) if checkpoints else TrainState()
            reporter.say(_greeting(model, world, state))
            objective = Objective(model, config.training.label_smoothing, config.training.guided)
            _check_guided(objective)
            if config.training.batch.tokens == "fit":
                config = _with_tokens(config, _fitting(objective, prepared, world, reporter))
                if world.leads:
                    run.save_experiment(config)
            Trainer(config, run, prepared, objective, optimizer, state, world, reporter).train()
        finally:
            reporter.close()
    return run


def _checkpoints(config: Experiment, run: Run, *, go_on: bool) -> list[Checkpoint]:
    checkpoints = list_checkpoints(run.folder)
    if go_on:
        if not checkpoints:
            raise RunError(f"{run.folder}: has no checkpoint to resume; train without --resume")
        before = run.experiment()
        tests = {"test"}  # sets to be measured on may come and go
        changed = [
            name
            for name in ("data", "text", "model")
            if getattr(before, name).model_dump(exclude=tests)
            != getattr(config, name).model_dump(exclude=tests)
        ]
        if changed:
            names = " and ".join(f"`{name}`" for name in changed)
            raise RunError(
                f"{run.folder}: was trained with another {names}; resume with the config it has"
                f" ({run.config}), or give another `run`"
            )
    else:
        refuse_trained(run.folder)
    return checkpoints


def _fitting(objective: Objective, prepared: Prepared, world: World, reporter: Reporter) -> int:
    """The tokens that the card's memory holds. Raises UserError where no card says how much that is."""
    if world.device.type != "cuda":
        raise UserError(
            "`training.batch.tokens: fit` asks how much the memory of a CUDA card holds, and this trains on a CPU: "
            "give a number; 4096 is usual"
        )
    tokens = most_tokens(objective, prepared.train.corpus, world)
    reporter.say(f"a batch of {tokens:,} tokens fits")
    return tokens


def _with_tokens(config: Experiment, tokens: int) -> Experiment:
    batch = config.training.batch.model_copy(update={"tokens": tokens})
    return config.model_copy(update={"training": config.training.model_copy(update={"batch": batch})})


def _as_fitted(config: Experiment, before: Experiment) -> Experiment:
    """The config with the tokens that fitted when its training began: another number would make other batches."""
    fitted = before.training.batch.tokens
    if config.training.batch.tokens != "fit" or fitted == "fit":
        return config
    return _with_tokens(config, fitted)


def _prepare(
    config: Experiment, run: Run, world: World, reporter: Reporter, *, keep_tokenizers: bool
) -> Prepared:
    """The leading process prepares; the others read what it wrote."""

    def start() -> Prepared:
        return prepare(config.data, config.text, run.folder, reporter.say, keep_tokenizers=keep_tokenizers)

    if world.leads:
        prepared = start()
        run.save_experiment(config)
    world.wait()
    return prepared if world.leads else start()


def _pretrained(model: Seq2Seq, config: Experiment, prepared: Prepared, reporter: Reporter) -> None:
    """Put pretrained weights and vectors where there are any; what scales embeddings is taken out of these first."""
    if isinstance(model.source, BertEmbedding) and isinstance(model.encoder, BertEncoder):
        assert isinstance(config.model.encoder, BertEncoderConfig)
        assert isinstance(prepared.source, WordPieceTokenizer)  # a rule of the config sees to both
        load_bert(config.model.encoder.path, model.source, model.encoder, prepared.source.bert_ids)
        reporter.say(f"encoder: begins with the weights of {config.model.encoder.path}")
    shared = config.model.embeddings
    for side, path, tokenizer, embedding in (
        ("source", shared.source_vectors, prepared.source, model.source),
        ("target", shared.target_vectors, prepared.target, model.target),
    ):
        if path is not None and isinstance(embedding, Embedding):
            vectors, coverage = load_vectors(path, tokenizer.vocabulary.tokens, shared.dim)
            with torch.no_grad():
                table = embedding.table.weight
                table.copy_(torch.where(coverage.mask.unsqueeze(1), vectors / embedding.scale, table))
            reporter.say(f"{side} vectors: {coverage}")


def _check_guided(objective: Objective) -> None:
    """Raises UserError when a decoder, perhaps one from elsewhere, lacks the attention that is to be guided."""
    if objective.guided is None:
        return
    was_training = objective.training
    objective.eval()
    word = torch.full((1, 1), EOS, device=next(objective.parameters()).device)
    with torch.no_grad():
        weights = objective.model(word, word.bool(), word, need_weights=True).weights
    objective.train(was_training)
    if found := objective.guided.missing(*((0, 0) if weights is None else weights.shape[1:3])):
        raise UserError(f"`{'.'.join(filter(None, ('training.guided', found[0])))}` {found[1]}")


def _greeting(model: Seq2Seq, world: World, state: TrainState) -> str:
    parameters = sum(p.numel() for p in model.parameters())
    where = f"{world.device}" + (f" in {world.size} processes" if world.size > 1 else "")
    start = f"going on after update {state.update}" if state.update else "starting"
    return f"{start}: {parameters:,} parameters on {where}"
