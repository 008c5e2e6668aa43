"""A BERT checkpoint, as Hugging Face's `save_pretrained` writes it: a folder with an architecture and weights.

config.json                     architecture
model.safetensors               weights, or
model.safetensors.index.json    the files that they are split into
vocab.txt tokenizer.json ...    vocabulary: see seq2attn/tokenizers/wordpiece.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import safetensors
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, ValidationError
from torch import Tensor

from seq2attn.config.base import Config, FieldError
from seq2attn.errors import DataError, RunError
from seq2attn.io.files import MAX_FILE_BYTES, open_regular
from seq2attn.io.weights import load_tensors

CONFIG_FILE, WEIGHTS_FILE, INDEX_FILE = "config.json", "model.safetensors", "model.safetensors.index.json"
PICKLE_FILE = "pytorch_model.bin"
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
    missing = [] if (folder / CONFIG_FILE).is_file() else [CONFIG_FILE]
    if not any((folder / name).is_file() for name in (WEIGHTS_FILE, INDEX_FILE)):
        missing.append(WEIGHTS_FILE)
    if missing:
        hint = f"; {PICKLE_FILE} is not read: convert it with `save_pretrained`"
        hint = hint if (folder / PICKLE_FILE).is_file() else ""
        raise FieldError("path", f"{folder} has no {' and no '.join(missing)}{hint}")
    architecture = _read_architecture(folder / CONFIG_FILE)
    rows, width = _embeddings_shape(folder)
    if (rows, width) != (architecture.vocab_size, architecture.hidden_size):
        expected = f"{architecture.vocab_size} x {architecture.hidden_size}"
        raise FieldError("path", f"{folder}: the embeddings are {rows} x {width}, and {expected} in {CONFIG_FILE}")
    return architecture


def _read_architecture(file: Path) -> BertArchitectureConfig:
    try:
        content = _read_json(file)
        model_type = content.get("model_type", "bert")
    except (OSError, ValueError, RecursionError, AttributeError) as error:
        raise FieldError("path", f"{file} cannot be read: {error}") from None
    if model_type != "bert":
        raise FieldError("path", f"{file} is not of a `bert` but of a `{model_type}`")
    if content.get("is_decoder") or content.get("position_embedding_type", "absolute") != "absolute":
        raise FieldError("path", f"{file} is of a BERT with causal attention or relative positions: not supported")
    known = {name: content[name] for name in BertArchitectureConfig.model_fields if name in content}
    try:
        architecture = BertArchitectureConfig.model_validate(known)
    except ValidationError as error:
        details = "; ".join(f"`{detail['loc'][0]}`: {detail['msg']}" for detail in error.errors())
        raise FieldError("path", f"{file} is not of a BERT: {details}") from None
    heads, width = architecture.num_attention_heads, architecture.hidden_size
    if width % heads:
        raise FieldError("path", f"{file}: {heads} heads do not divide {width}")
    return architecture


def _weight_files(folder: Path) -> list[Path]:
    """Raises FieldError for an index that cannot be read, or that names files outside the folder."""
    if (folder / WEIGHTS_FILE).is_file():
        return [folder / WEIGHTS_FILE]
    try:
        names = sorted({*_read_json(folder / INDEX_FILE)["weight_map"].values()})
        if outside := [name for name in names if Path(name).name != name]:
            raise ValueError(f"`{outside[0]}` is not the name of a file in the same folder")
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise FieldError("path", f"{folder / INDEX_FILE} cannot be read: {error!r}") from None
    return [folder / name for name in names]


def _read_json(file: Path) -> Any:
    with open_regular(file) as stream:
        return json.loads(stream.read(MAX_FILE_BYTES))


def _embeddings_shape(folder: Path) -> tuple[int, ...]:
    """Shape of the word embeddings, from the headers of the files."""
    shapes: list[tuple[int, ...]] = []
    for file in _weight_files(folder):
        try:
            open_regular(file).close()
            with safetensors.safe_open(file, "np") as weights:
                names = [name for name in weights.keys() if name.endswith(WORD_EMBEDDINGS_KEY)]  # noqa: SIM118  # it is no mapping
                shapes += [tuple(weights.get_slice(name).get_shape()) for name in names]
        except FileNotFoundError:
            raise FieldError("path", f"{folder} has no {file.name}, which {INDEX_FILE} names") from None
        except (safetensors.SafetensorError, OSError) as error:
            size = file.stat().st_size
            message = f"{file} ({size:,} bytes) is not a complete safetensors file ({error}); download it again"
            raise FieldError("path", message) from None
    if len(shapes) != 1 or len(shapes[0]) != 2:
        raise FieldError("path", f"{folder}: its weights are not of a BERT: there is no `{WORD_EMBEDDINGS_KEY}`")
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
        tensors = {name: t for file in _weight_files(folder) for name, t in load_tensors(file).items()}
    except (FieldError, RunError) as error:
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
