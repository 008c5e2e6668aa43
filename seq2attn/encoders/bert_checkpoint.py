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

from seq2attn.config.base import Config, Mistake
from seq2attn.errors import DataError, RunError
from seq2attn.io.files import LARGEST, open_regular
from seq2attn.io.weights import load_tensors

SHAPE, WEIGHTS, INDEX, PICKLE = (
    "config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
)
TABLE = "embeddings.word_embeddings.weight"
"""What the weights of any BERT hold, perhaps with a prefix."""


class BertShape(Config):
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


def read_shape(folder: Path) -> BertShape:
    """The shape of the BERT in `folder`, whose files are looked at so far as can be done quickly.

    Raises: Mistake about `path` when a file is missing or torn, or when this is another kind of model.
    """
    absent = [name for name in (SHAPE,) if not (folder / name).is_file()]
    if not any((folder / name).is_file() for name in (WEIGHTS, INDEX)):
        absent.append(WEIGHTS)
    if absent:
        hint = (
            f"; {PICKLE} is not read: save it anew by `save_pretrained`"
            if (folder / PICKLE).is_file()
            else ""
        )
        raise Mistake("path", f"{folder} has no {' and no '.join(absent)}{hint}")
    shape = _shape(folder / SHAPE)
    rows, width = _table(folder)
    if (rows, width) != (shape.vocab_size, shape.hidden_size):
        expected = f"{shape.vocab_size} x {shape.hidden_size}"
        raise Mistake("path", f"{folder}: the embeddings are {rows} x {width}, and {expected} in {SHAPE}")
    return shape


def _shape(file: Path) -> BertShape:
    try:
        content = _json(file)
    except (OSError, ValueError, RecursionError) as error:
        raise Mistake("path", f"{file} cannot be read: {error}") from None
    if not isinstance(content, dict) or content.get("model_type", "bert") != "bert":
        kind = content.get("model_type") if isinstance(content, dict) else None
        raise Mistake("path", f"{file} is not of a `bert` but of a `{kind}`")
    if content.get("is_decoder") or content.get("position_embedding_type", "absolute") != "absolute":
        raise Mistake(
            "path", f"{file} is of a BERT that reads in one direction, or by distances: not supported"
        )
    known = {name: content[name] for name in BertShape.model_fields if name in content}
    try:
        shape = BertShape.model_validate(known)
    except ValidationError as error:
        wrong = "; ".join(f"`{detail['loc'][0]}`: {detail['msg']}" for detail in error.errors())
        raise Mistake("path", f"{file} describes no BERT: {wrong}") from None
    if shape.hidden_size % shape.num_attention_heads:
        raise Mistake("path", f"{file}: {shape.num_attention_heads} heads do not divide {shape.hidden_size}")
    return shape


def _files(folder: Path) -> list[Path]:
    """Where the weights are. Raises Mistake for an index that cannot be read, or leads out of the folder."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    try:
        names = sorted({*_json(folder / INDEX)["weight_map"].values()})
        if strays := [name for name in names if Path(name).name != name]:
            raise ValueError(f"`{strays[0]}` is no name of a file beside it")
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise Mistake("path", f"{folder / INDEX} cannot be read: {error!r}") from None
    return [folder / name for name in names]


def _json(file: Path) -> Any:
    with open_regular(file) as stream:
        return json.loads(stream.read(LARGEST))


def _table(folder: Path) -> tuple[int, ...]:
    """The shape of the word embeddings, from the heads of the files."""
    shapes: list[tuple[int, ...]] = []
    for file in _files(folder):
        try:
            open_regular(file).close()
            with safetensors.safe_open(file, "np") as weights:
                names = [name for name in weights.keys() if name.endswith(TABLE)]  # noqa: SIM118  # it is no mapping
                shapes += [tuple(weights.get_slice(name).get_shape()) for name in names]
        except FileNotFoundError:
            raise Mistake("path", f"{folder} has no {file.name}, which {INDEX} names") from None
        except (safetensors.SafetensorError, OSError) as error:
            size = file.stat().st_size
            raise Mistake(
                "path", f"{file} ({size:,} bytes) is no whole safetensors file ({error}); download it again"
            ) from None
    if len(shapes) != 1 or len(shapes[0]) != 2:
        raise Mistake("path", f"{folder}: its weights are not of a BERT: there is no `{TABLE}`")
    return shapes[0]


def read_bert(folder: Path) -> dict[str, Tensor]:
    """The tensors of the BERT in `folder`, as `BertModel` calls them; those of its heads are left out.

    They are read as ours are, and not by `from_pretrained`, which does whatever else a folder asks for.

    Raises: DataError when they cannot be read.
    """
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}; expected that of a BERT checkpoint")
    try:
        found = {name: t for file in _files(folder) for name, t in load_tensors(file).items()}
    except (Mistake, RunError) as error:
        raise DataError(f"{folder}: its weights cannot be read: {error}") from None
    tables = [name for name in found if name.endswith(TABLE)]
    if len(tables) != 1:
        raise DataError(f"{folder}: its weights are not of a BERT: there is no `{TABLE}`")
    prefix = tables[0].removesuffix(TABLE)
    return {
        _renamed(name.removeprefix(prefix)): t.float() for name, t in found.items() if name.startswith(prefix)
    }


def _renamed(name: str) -> str:
    """As Google's own checkpoints call it, or as all others do -> as all others do."""
    for first, today in ((".gamma", ".weight"), (".beta", ".bias")):
        if name.endswith(f"LayerNorm{first}"):
            return name.removesuffix(first) + today
    return name
