"""Initial weights of a training: those of another run, of BERT, and pretrained word vectors."""

from collections import Counter
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.config.base import FieldError
from seq2attn.config.plugin import allow_code, plugin_modules
from seq2attn.data.collate import make_batch
from seq2attn.data.corpus import Corpus
from seq2attn.data.prepared_data import PreparedData
from seq2attn.errors import ConfigError, UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.experiment.training_config import InitFromConfig, LoRAConfig, TrainingConfig
from seq2attn.io.terminal import Log
from seq2attn.losses.training_loss import TrainingLoss, perplexity
from seq2attn.models import Seq2Seq
from seq2attn.models.build import assumed_vocab_sizes, build_for_inspection, count_trained, select_parameters
from seq2attn.models.pretrained_vectors import load_vectors
from seq2attn.models.seq2seq import TokenEmbedding
from seq2attn.nn.initialization import SkipInit
from seq2attn.nn.lora import add_adapter
from seq2attn.optim.optimizers import parameter_groups
from seq2attn.tokenizers.vocabulary import Vocabulary
from seq2attn.training.config_changes import config_changes
from seq2attn.training.memory import restored_buffers

VOCABULARY_TABLES = {
    "source_embedding.embedding.weight": "source",
    "target_embedding.embedding.weight": "target",
    "output_projection.weight": "target",
    "output_projection.bias": "target",
}
"""Parameters with a row for each entry of a vocabulary."""
DROPOUT_PAIRS, MAX_DROPOUT_LOSS = 16, 1.0
"""Sentence pairs with which initial weights are tried, and the loss per token by which dropout may raise theirs."""


def check_parts(experiment: ExperimentConfig, *, needs_initial_run: bool = True) -> int | None:
    """The number of trained parameters, if the config names parts that are trained or not, or has a plug-in.

    Raises FieldError for a name that no part of the model has, for plug-ins that do not fit the other parts, and for
    weights of the initial run that do not. A training that is resumed needs no initial run, nor does the plan of one.
    """
    training = experiment.training
    allow_code(plugin_modules(experiment))  # the user's own config is trusted, and with it these modules in other runs
    if needs_initial_run:
        _check_initial_run(experiment)
    exclude = training.init_from.exclude if training.init_from else ()
    has_plugins = bool(plugin_modules(experiment.model))
    if not (training.frozen or training.lora or training.lr_scales or exclude or has_plugins):
        return None
    try:
        model = build_for_inspection(experiment.model, *assumed_vocab_sizes(experiment.tokenizer))
    except ConfigError as error:
        key, _, message = str(error).removeprefix("`").partition("`: ")
        raise FieldError(key, message) from None
    select_parameters(model, exclude, "training.init_from.exclude")
    with SkipInit():
        freeze_parameters(model, training)
    parameter_groups(model, training.lr_scales)
    return count_trained(model)


def freeze_parameters(model: nn.Module, training: TrainingConfig) -> None:
    """Freeze the parts of `training.frozen`, or all weights but the updates of `training.lora`, which are added.

    Raises FieldError for a name that no part has, and if no part is left to train.
    """
    if training.lora is not None:
        _add_adapters(model, training.lora)
    for parameter in select_parameters(model, training.frozen, "training.frozen").values():
        parameter.requires_grad_(False)
    if training.frozen and not count_trained(model):
        raise FieldError("training.frozen", "leaves no part to train")


def _add_adapters(model: nn.Module, lora: LoRAConfig) -> None:
    selected = set(map(id, select_parameters(model, lora.parts, "training.lora.parts").values()))
    uses = Counter(id(parameter) for _, parameter in model.named_parameters(remove_duplicate=False))
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear) and id(layer.weight) in selected]
    layers = [layer for layer in layers if uses[id(layer.weight)] == 1]
    if not layers:
        raise FieldError("training.lora.parts", "these parts have no linear layer with a weight that is not tied")
    model.requires_grad_(False)
    for layer in layers:
        add_adapter(layer, lora.rank, lora.alpha)


def load_initial_weights(model: Seq2Seq, experiment: ExperimentConfig, prepared: PreparedData, log: Log) -> None:
    """Load pretrained weights into a model, then those of `training.init_from`.

    Raises UserError or DataError for weights that do not fit the model.
    """
    init = experiment.training.init_from
    if init is None or init.exclude:
        _load_pretrained(model, experiment, prepared, log)
    if init is not None:
        _load_run(model, experiment, init, prepared, log)
        _warn_of_dropout(model, prepared.train.corpus, log)


def _load_run(
    model: Seq2Seq, experiment: ExperimentConfig, init: InitFromConfig, prepared: PreparedData, log: Log
) -> None:
    """Copy the weights of a run, except those of the parts that it excludes."""
    run = RunDirectory(init.run_dir)
    loaded = run.load()
    for change in config_changes(loaded.experiment.model, experiment.model, "model").values():
        log(f"{run.folder}: {change}")
    weights = loaded.model.state_dict()
    rows = {
        side: RowMapping.between(old.vocabulary, new.vocabulary)
        for side, old, new in zip(("source", "target"), loaded.tokenizers, prepared.tokenizers, strict=True)
    }
    tensors = _copied_tensors(model, weights, init, is_same_source=rows["source"].is_identity)
    with torch.no_grad():
        for name, tensor in tensors.items():
            side = VOCABULARY_TABLES.get(name)
            tensor.copy_(weights[name] if side is None else rows[side].apply(weights[name], tensor))
    log(f"initial weights: those of {', except '.join([str(run.folder), *filter(None, [', '.join(init.exclude)])])}")
    for side, mapping in rows.items():
        log(f"{side} vocabulary: {mapping}")
    if unused := [name for name in weights if name not in model.state_dict()]:
        log(f"warning: weights of {run.folder} without a place in the model: {len(unused)}, such as `{unused[0]}`")


def _warn_of_dropout(model: Seq2Seq, corpus: Corpus, log: Log) -> None:
    """Log a warning if the dropout of the config makes the first pairs of a corpus far less likely."""
    batch, loss_module = make_batch(corpus, range(min(len(corpus), DROPOUT_PAIRS))), TrainingLoss(model)
    with torch.no_grad(), restored_buffers(model):
        losses = [loss_module.train(mode)(batch).negative_log_likelihood for mode in (False, True)]
    plain, dropped = (float(loss) / len(batch.label_index) for loss in losses)
    if dropped - plain > MAX_DROPOUT_LOSS:
        plain, dropped = map(perplexity, (plain, dropped))
        log(
            f"warning: the dropout of `model` harms the initial weights: perplexity {dropped:,.2f} with it, and"
            f" {plain:,.2f} without; use that of their training, or 0 where it is not known"
        )


def _check_initial_run(experiment: ExperimentConfig) -> None:
    """Compare the sizes of the model with those of the run of `training.init_from`, before anything is written.

    Raises FieldError for weights that the model cannot take, and without a run.
    """
    if (init := experiment.training.init_from) is None:
        return
    run = RunDirectory(init.run_dir)
    try:
        models = run.load_config().model, experiment.model
        sizes = [len(tokenizer.vocabulary) for tokenizer in run.load_tokenizers()]
        old, new = (build_for_inspection(model, *sizes) for model in models)
    except UserError as error:
        raise FieldError("training.init_from", str(error)) from None
    _copied_tensors(new, old.state_dict(), init, is_same_source=True)


def _copied_tensors(
    model: nn.Module, weights: dict[str, Tensor], init: InitFromConfig, *, is_same_source: bool
) -> dict[str, Tensor]:
    """The tensors of a model that begin with those of a run. Raises FieldError if they cannot."""
    excluded = set(map(id, select_parameters(model, init.exclude, "training.init_from.exclude").values()))
    tensors = {name: t for name, t in model.state_dict(keep_vars=True).items() if id(t) not in excluded}
    if mistakes := _mismatches(tensors, weights, is_same_source=is_same_source):
        more = f", and {len(mistakes) - 1} more" if len(mistakes) > 1 else ""
        fix = "take the `model` of this run, or name the part in `training.init_from.exclude`"
        raise FieldError("training.init_from", f"{init.run_dir}: {mistakes[0]}{more}; {fix}")
    return tensors


def _mismatches(tensors: dict[str, Tensor], weights: dict[str, Tensor], *, is_same_source: bool) -> list[str]:
    """The weights of a run that a model cannot take."""
    mistakes, first_names = list[str](), dict[int, str]()
    for name, tensor in tensors.items():
        first = 1 if name in VOCABULARY_TABLES else 0  # numbers of rows may differ
        tied, weight = first_names.setdefault(id(tensor), name), weights.get(name)
        if weight is None:
            mistakes.append(f"lacks `{name}`")
        elif weight.shape[first:] != tensor.shape[first:]:
            actual, expected = (" x ".join(map(str, shape)) for shape in (weight.shape, tensor.shape))
            mistakes.append(f"`{name}` is {actual}, expected {expected}")
        elif name.startswith("source_embedding.embeddings.") and not is_same_source:
            mistakes.append(f"`{name}` is for another source vocabulary")
        elif tied != name and tied in weights and not weight.is_meta and not torch.equal(weight, weights[tied]):
            mistakes.append(f"`{tied}` and `{name}` differ, and are tied in the model (`model.embeddings.tie`)")
    return mistakes


@dataclass(frozen=True, eq=False)
class RowMapping:
    """For each entry of a vocabulary the entries of another one whose mean it begins with; prints as a line."""

    ids: Tensor  # of all entries, one after the other
    counts: Tensor  # [V]: 1 for an entry that both have, 0 for a new one
    num_copied: int
    is_identity: bool

    @classmethod
    def between(cls, old: Vocabulary, new: Vocabulary) -> Self:
        """From an old vocabulary to a new one."""
        parts = [old.compose(token) for token in new.tokens]
        ids = torch.tensor([id for part in parts for id in part], dtype=torch.long)
        num_copied = len({*old.tokens} & {*new.tokens})
        return cls(ids, torch.tensor([len(part) for part in parts]), num_copied, old == new)

    def apply(self, old: Tensor, initial: Tensor) -> Tensor:
        """The rows of the new entries: [U, ...], [V, ...] -> [V, ...]; rows of `initial` for new entries"""
        offsets = self.counts.cumsum(0) - self.counts
        means = F.embedding_bag(self.ids, old.reshape(len(old), -1), offsets, mode="mean").view_as(initial)
        return torch.where((self.counts > 0).view(-1, *[1] * (initial.dim() - 1)), means, initial)

    def __str__(self) -> str:
        num_new = int((self.counts == 0).sum())
        num_composed = len(self.counts) - self.num_copied - num_new
        return f"{self.num_copied:,} entries copied, {num_composed:,} the mean of several, {num_new:,} new"


def _load_pretrained(model: Seq2Seq, experiment: ExperimentConfig, prepared: PreparedData, log: Log) -> None:
    """Pretrained weights of BERT, and pretrained vectors, divided by the scale of the embeddings."""
    if (path := experiment.model.encoder_checkpoint) is not None:
        experiment.model.encoder.load_checkpoint(model.source_embedding, model.encoder, prepared.source)
        log(f"encoder: pretrained weights of {path}")
        if not experiment.training.lr_scales and count_trained(model.encoder):
            log("warning: BERT has the full learning rate; pretrained weights need a smaller one: `training.lr_scales`")
    embeddings = experiment.model.embeddings
    for side, path, tokenizer, embedding in (
        ("source", embeddings.source_vectors, prepared.source, model.source_embedding),
        ("target", embeddings.target_vectors, prepared.target, model.target_embedding),
    ):
        if path is not None and isinstance(embedding, TokenEmbedding):
            vectors, coverage = load_vectors(path, tokenizer.vocabulary.tokens, embeddings.dim)
            with torch.no_grad():
                table = embedding.embedding.weight
                table.copy_(torch.where(coverage.is_covered.unsqueeze(1), vectors / embedding.scale, table))
            log(f"{side} vectors: {coverage}")
