"""The folder of a BERT checkpoint, as Hugging Face's `save_pretrained` writes it: its shape, and its weights.

config.json                     the shape
model.safetensors               the weights, or
model.safetensors.index.json    where they are in several files
vocab.txt tokenizer.json ...    the vocabulary: see seq2attn/tokenizers/wordpiece.py
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

CONFIG_FILE, WEIGHTS_FILE, INDEX_FILE, PICKLE_FILE = (
    "config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
)
WORD_EMBEDDINGS_KEY = "embeddings.word_embeddings.weight"
"""What the weights of any BERT hold, perhaps with a prefix."""


class BertArchitectureConfig(Config):
    """What `config.json` says of a BERT, in its own words."""

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
    """The shape of the BERT in `folder`, whose files are looked at so far as can be done quickly.

    Raises: FieldError about `path` when a file is missing or torn, or when this is another kind of model.
    """
    absent = [name for name in (CONFIG_FILE,) if not (folder / name).is_file()]
    if not any((folder / name).is_file() for name in (WEIGHTS_FILE, INDEX_FILE)):
        absent.append(WEIGHTS_FILE)
    if absent:
        hint = (
            f"; {PICKLE_FILE} is not read: save it anew by `save_pretrained`"
            if (folder / PICKLE_FILE).is_file()
            else ""
        )
        raise FieldError("path", f"{folder} has no {' and no '.join(absent)}{hint}")
    shape = _shape(folder / CONFIG_FILE)
    rows, width = _table(folder)
    if (rows, width) != (shape.vocab_size, shape.hidden_size):
        expected = f"{shape.vocab_size} x {shape.hidden_size}"
        raise FieldError("path", f"{folder}: the embeddings are {rows} x {width}, and {expected} in {CONFIG_FILE}")
    return shape


def _shape(file: Path) -> BertArchitectureConfig:
    try:
        content = _json(file)
    except (OSError, ValueError, RecursionError) as error:
        raise FieldError("path", f"{file} cannot be read: {error}") from None
    if not isinstance(content, dict) or content.get("model_type", "bert") != "bert":
        kind = content.get("model_type") if isinstance(content, dict) else None
        raise FieldError("path", f"{file} is not of a `bert` but of a `{kind}`")
    if content.get("is_decoder") or content.get("position_embedding_type", "absolute") != "absolute":
        raise FieldError("path", f"{file} is of a BERT that reads in one direction, or by distances: not supported")
    known = {name: content[name] for name in BertArchitectureConfig.model_fields if name in content}
    try:
        shape = BertArchitectureConfig.model_validate(known)
    except ValidationError as error:
        wrong = "; ".join(f"`{detail['loc'][0]}`: {detail['msg']}" for detail in error.errors())
        raise FieldError("path", f"{file} describes no BERT: {wrong}") from None
    if shape.hidden_size % shape.num_attention_heads:
        raise FieldError("path", f"{file}: {shape.num_attention_heads} heads do not divide {shape.hidden_size}")
    return shape


def _files(folder: Path) -> list[Path]:
    """Where the weights are. Raises FieldError for an index that cannot be read, or leads out of the folder."""
    if (folder / WEIGHTS_FILE).is_file():
        return [folder / WEIGHTS_FILE]
    try:
        names = sorted({*_json(folder / INDEX_FILE)["weight_map"].values()})
        if strays := [name for name in names if Path(name).name != name]:
            raise ValueError(f"`{strays[0]}` is no name of a file beside it")
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise FieldError("path", f"{folder / INDEX_FILE} cannot be read: {error!r}") from None
    return [folder / name for name in names]


def _json(file: Path) -> Any:
    with open_regular(file) as stream:
        return json.loads(stream.read(MAX_FILE_BYTES))


def _table(folder: Path) -> tuple[int, ...]:
    """The shape of the word embeddings, from the heads of the files."""
    shapes: list[tuple[int, ...]] = []
    for file in _files(folder):
        try:
            open_regular(file).close()
            with safetensors.safe_open(file, "np") as weights:
                names = [name for name in weights.keys() if name.endswith(WORD_EMBEDDINGS_KEY)]  # noqa: SIM118  # it is no mapping
                shapes += [tuple(weights.get_slice(name).get_shape()) for name in names]
        except FileNotFoundError:
            raise FieldError("path", f"{folder} has no {file.name}, which {INDEX_FILE} names") from None
        except (safetensors.SafetensorError, OSError) as error:
            size = file.stat().st_size
            raise FieldError(
                "path", f"{file} ({size:,} bytes) is no whole safetensors file ({error}); download it again"
            ) from None
    if len(shapes) != 1 or len(shapes[0]) != 2:
        raise FieldError("path", f"{folder}: its weights are not of a BERT: there is no `{WORD_EMBEDDINGS_KEY}`")
    return shapes[0]


def read_bert_tensors(folder: Path) -> dict[str, Tensor]:
    """The tensors of the BERT in `folder`, as `BertModel` calls them; those of its heads are left out.

    They are read as ours are, and not by `from_pretrained`, which does whatever else a folder asks for.

    Raises: DataError when they cannot be read.
    """
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}; expected that of a BERT checkpoint")
    try:
        found = {name: t for file in _files(folder) for name, t in load_tensors(file).items()}
    except (FieldError, RunError) as error:
        raise DataError(f"{folder}: its weights cannot be read: {error}") from None
    tables = [name for name in found if name.endswith(WORD_EMBEDDINGS_KEY)]
    if len(tables) != 1:
        raise DataError(f"{folder}: its weights are not of a BERT: there is no `{WORD_EMBEDDINGS_KEY}`")
    prefix = tables[0].removesuffix(WORD_EMBEDDINGS_KEY)
    return {_renamed(name.removeprefix(prefix)): t.float() for name, t in found.items() if name.startswith(prefix)}


def _renamed(name: str) -> str:
    """As Google's own checkpoints call it, or as all others do -> as all others do."""
    for first, today in ((".gamma", ".weight"), (".beta", ".bias")):
        if name.endswith(f"LayerNorm{first}"):
            return name.removesuffix(first) + today
    return name
