"""A BERT checkpoint in a folder of Hugging Face; its vocabulary is read by seq2attn/tokenizers/wordpiece.py."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor

from seq2attn.config.base import Config, FieldError
from seq2attn.errors import DataError, RunError
from seq2attn.io.hf_folder import (
    CONFIG_FILE,
    check_files,
    read_hf_config,
    read_hf_specs,
    read_hf_tensors,
    validate_fields,
)

WORD_EMBEDDINGS_KEY = "embeddings.word_embeddings.weight"
"""Key in the weights of any BERT, perhaps with a prefix."""


class BertArchitectureConfig(Config):
    """Fields of `config.json` that define a BERT, with their names there."""

    vocab_size: PositiveInt
    hidden_size: PositiveInt
    num_hidden_layers: PositiveInt
    num_attention_heads: PositiveInt
    intermediate_size: PositiveInt
    max_position_embeddings: PositiveInt
    type_vocab_size: PositiveInt = 2
    hidden_act: Literal["gelu", "gelu_new", "relu", "silu", "swish"] = "gelu"
    hidden_dropout_prob: float = Field(0.1, ge=0, lt=1)
    attention_probs_dropout_prob: float = Field(0.1, ge=0, lt=1)
    layer_norm_eps: PositiveFloat = 1e-12
    initializer_range: NonNegativeFloat = 0.02


def read_bert_config(folder: Path) -> BertArchitectureConfig:
    """Architecture of the BERT in `folder`, after the checks of its files that are fast.

    Raises FieldError for `path` when a file is missing or corrupt, or of another type of model.
    """
    try:
        check_files(folder)
        architecture = _read_architecture(folder / CONFIG_FILE)
        rows, width = _embeddings_shape(folder)
    except DataError as error:
        raise FieldError("path", str(error)) from None
    if (rows, width) != (architecture.vocab_size, architecture.hidden_size):
        expected = f"{architecture.vocab_size} x {architecture.hidden_size}"
        raise FieldError("path", f"{folder}: the embeddings are {rows} x {width}, and {expected} in {CONFIG_FILE}")
    return architecture


def _read_architecture(file: Path) -> BertArchitectureConfig:
    content = read_hf_config(file)
    model_type = content.get("model_type", "bert")
    if model_type != "bert":
        raise FieldError("path", f"{file} is not of a `bert` but of a `{model_type}`")
    if content.get("is_decoder") or content.get("position_embedding_type", "absolute") != "absolute":
        raise FieldError("path", f"{file} is of a BERT with causal attention or relative positions: not supported")
    architecture = validate_fields(BertArchitectureConfig, content, file)
    heads, width = architecture.num_attention_heads, architecture.hidden_size
    if width % heads:
        raise FieldError("path", f"{file}: {heads} heads do not divide {width}")
    return architecture


def _embeddings_shape(folder: Path) -> tuple[int, ...]:
    """Shape of the word embeddings, from the headers of the files. Raises DataError when there are none."""
    shapes = [spec.shape for name, spec in read_hf_specs(folder).items() if name.endswith(WORD_EMBEDDINGS_KEY)]
    if len(shapes) != 1 or len(shapes[0]) != 2:
        raise DataError(f"{folder}: its weights are not of a BERT: there is no `{WORD_EMBEDDINGS_KEY}`")
    return shapes[0]


def read_bert_tensors(folder: Path) -> dict[str, Tensor]:
    """Tensors of the BERT in `folder`, with the names of `BertModel`; those of its heads are left out.

    `from_pretrained` is not used: it follows other files in the folder, which is untrusted.

    Raises DataError when they cannot be read.
    """
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}; expected that of a BERT checkpoint")
    try:
        _embeddings_shape(folder)
        tensors = read_hf_tensors(folder)
    except (DataError, RunError) as error:
        raise DataError(f"{folder}: its weights cannot be read: {error}") from None
    (prefix,) = (name.removesuffix(WORD_EMBEDDINGS_KEY) for name in tensors if name.endswith(WORD_EMBEDDINGS_KEY))
    return {
        # Google's checkpoints call the weights of a layer norm gamma and beta.
        name.removeprefix(prefix)
        .replace("LayerNorm.gamma", "LayerNorm.weight")
        .replace("LayerNorm.beta", "LayerNorm.bias"): tensor.float()
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
