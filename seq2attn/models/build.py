"""A model from its config: construction, and weights in a file."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from seq2attn.config.base import FieldError
from seq2attn.config.plugin import is_plugin, plugin_modules
from seq2attn.errors import ConfigError, RunError
from seq2attn.io.weights import (
    WEIGHTS_HINT,
    check_tensor_specs,
    copy_weights,
    load_tensors,
    read_metadata,
    read_tensor_specs,
    save_tensors,
)
from seq2attn.models.model_config import EmbeddingsConfig, ModelConfig
from seq2attn.models.seq2seq import Seq2Seq, TokenEmbedding
from seq2attn.nn.initialization import SkipInit, initialize_parameters
from seq2attn.nn.kernels.linear import Linear
from seq2attn.tokenizers.tokenizer_config import TokenizersConfig
from seq2attn.tokenizers.vocabulary import BOS, Vocabulary, check_same

ASSUMED_VOCAB_SIZE = 8000
"""Assumed vocabulary size where it depends on the text."""


def build_model(config: ModelConfig, source_size: int, target_size: int) -> Seq2Seq:
    """A model with initial weights, for vocabularies of these sizes.

    Raises ConfigError when components do not fit together.
    """
    embeddings = config.embeddings
    try:
        encoder = config.encoder.build(embeddings.dim)
        decoder = config.decoder.build(embeddings.dim, encoder)
    except ValueError as error:
        raise ConfigError(f"`model`: {error}") from error
    source = None if is_plugin(config.encoder) else config.encoder.build_embedding()
    if source is None:
        source = _token_embedding(embeddings, source_size)
    target = _token_embedding(embeddings, target_size)
    if embeddings.frozen_bos:
        target.embedding.weight.register_hook(_without_bos)
    output = Linear(decoder.dim, target_size)
    initialize_parameters(output)
    if embeddings.tie != "none":
        if decoder.dim != embeddings.dim:
            raise ConfigError(f"`model.embeddings.tie`: the decoder is {decoder.dim} wide, not {embeddings.dim}")
        output.weight = target.embedding.weight
    if embeddings.tie == "all" and isinstance(source, TokenEmbedding):
        source.embedding.weight = target.embedding.weight
    return Seq2Seq(source, encoder, target, decoder, output)


def _without_bos(gradient: Tensor) -> Tensor:
    """The gradient of an embedding and of all that is tied to it, zero for BOS: [V, E] -> [V, E]"""
    return gradient.select_scatter(gradient.new_zeros(gradient.size(1)), 0, BOS)  # without waiting for a GPU


def _token_embedding(config: EmbeddingsConfig, size: int) -> TokenEmbedding:
    return TokenEmbedding(
        size, config.dim, scaled=config.scaled, dropout=config.dropout, word_dropout=config.word_dropout
    )


def build_on_meta_device(config: ModelConfig, source_size: int, target_size: int) -> Seq2Seq:
    """The model of a config, built without memory for its weights.

    Raises ConfigError for sizes that no tensor can have.
    """
    try:
        with SkipInit(), torch.device("meta"):
            return build_model(config, source_size, target_size)
    except (RuntimeError, TypeError, OverflowError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"`model`: cannot be built from this config ({reason})") from None


def build_for_inspection(config: ModelConfig, source_size: int, target_size: int) -> Seq2Seq:
    """The model of a config for its sizes and parts: without memory, unless it has plug-ins, which may need it.

    Raises ConfigError as `build_model` and `build_on_meta_device`.
    """
    build = build_model if plugin_modules(config) else build_on_meta_device
    return build(config, source_size, target_size)


def count_parameters(model: nn.Module) -> int:
    """Number of parameters of a model; tied parameters count once."""
    return sum(parameter.numel() for parameter in model.parameters())


def count_trained(model: nn.Module) -> int:
    """Number of parameters that are trained."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def assumed_vocab_sizes(tokenizers: TokenizersConfig) -> list[int]:
    """The maximum sizes of the vocabularies of source and target, without data; 8,000 for one without a maximum."""
    return [config.vocab_size or ASSUMED_VOCAB_SIZE for config in tokenizers.per_side]


def select_parameters(model: nn.Module, parts: Sequence[str], field: str) -> dict[str, nn.Parameter]:
    """The parameters of parts, by the names that `--dry-run -v` prints: parameters, or modules that hold some.

    Raises FieldError, for a key of the config, for a name that no part has.
    """
    parameters = dict(model.named_parameters(remove_duplicate=False))
    selected: dict[str, nn.Parameter] = {}
    for part in parts:
        parameters_of_part = {name: value for name, value in parameters.items() if f"{name}.".startswith(f"{part}.")}
        if not parameters_of_part:
            close = get_close_matches(part, [*parameters, *(name for name, _ in model.named_modules())], 1)
            hint = f"; did you mean `{close[0]}`?" if close else ""
            raise FieldError(field, f"the model has no part `{part}`: see the names of `train --dry-run -v`{hint}")
        selected |= parameters_of_part
    return selected


def load_model(weights: Path, config: ModelConfig, source_size: int, target_size: int) -> Seq2Seq:
    """The model of a config, with the weights in a file.

    The model is first built on the meta device and compared with the header of the file, so that an untrusted config
    cannot allocate more memory than the size of the file. Models with plug-ins, which are trusted, are not.

    Raises: RunError when the file is missing or corrupt, or does not have the weights of this model.
    """
    if not plugin_modules(config):
        try:
            empty = build_on_meta_device(config, source_size, target_size)
        except ConfigError as error:
            raise RunError(f"{weights}: {error}") from None
        check_tensor_specs(empty, read_tensor_specs(weights), weights)
    model = build_model(config, source_size, target_size)
    copy_weights(model, load_tensors(weights), weights)
    return model


Vocabularies = tuple[Vocabulary, Vocabulary]


def save_weights(
    weights: Mapping[str, Tensor], vocabularies: Vocabularies, path: Path, origin: Mapping[str, Any] | None = None
) -> str:
    """Write the weights of a model, its vocabularies, and the origin of the weights. Returns the digest of the file."""
    source, target = vocabularies
    metadata: dict[str, Any] = {"source": source.tokens, "target": target.tokens}
    return save_tensors(weights, path, metadata if origin is None else {**metadata, "origin": dict(origin)})


def check_vocabularies(weights: Path, folder: Path, vocabularies: Vocabularies) -> None:
    """Refuse weights that were trained with other vocabularies than those of the run in `folder`.

    Raises: RunError with both files, their sizes, and the first entry that differs.
    """
    metadata = read_metadata(weights)
    for side, vocabulary in zip(("source", "target"), vocabularies, strict=True):
        if side in metadata:  # not in files that other programs wrote
            tokens = metadata[side]
            if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
                raise RunError(f"{weights}: its metadata `{side}` is not a vocabulary; {WEIGHTS_HINT}")
            try:
                check_same(Vocabulary(tuple(tokens)), vocabulary, folder / side / "vocabulary.json")
            except (RunError, ValueError) as error:
                raise RunError(f"{weights}: was trained with another vocabulary. {error}") from None
