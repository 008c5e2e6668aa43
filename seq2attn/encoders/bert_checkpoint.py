"""The folder of a BERT checkpoint, as Hugging Face's `save_pretrained` writes it: its shape, and its weights.

config.json                     the shape
model.safetensors               the weights, or
model.safetensors.index.json    where they are in several files
vocab.txt tokenizer.json ...    the vocabulary: see seq2attn/text/wordpiece.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import safetensors
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, ValidationError

from seq2attn.config.base import Config, Mistake
from seq2attn.errors import DataError

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
        content = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
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


def _table(folder: Path) -> tuple[int, ...]:
    """The shape of the word embeddings, from the heads of the files."""
    files = [folder / WEIGHTS]
    if not files[0].is_file():
        try:
            files = [
                folder / name
                for name in sorted({*json.loads((folder / INDEX).read_bytes())["weight_map"].values()})
            ]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise Mistake("path", f"{folder / INDEX} cannot be read: {error!r}") from None
    shapes: list[tuple[int, ...]] = []
    for file in files:
        try:
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


def read_bert(folder: Path) -> Any:
    """The `BertModel` of `folder`, without its pooler, as `transformers` reads it.

    Raises: DataError when weights are missing or do not fit.
    """
    from transformers import BertModel

    if not folder.is_dir():  # which `transformers` would look for elsewhere
        raise DataError(f"there is no folder {folder}; expected that of a BERT checkpoint")
    with _quiet():
        try:
            bert, report = BertModel.from_pretrained(
                folder, add_pooling_layer=False, local_files_only=True, use_safetensors=True,
                dtype="float32", output_loading_info=True,
            )  # fmt: skip
        except Exception as error:  # whatever a damaged file makes of it: there are many kinds
            raise DataError(f"{folder}: its weights cannot be read: {error}") from None
    if absent := sorted(report["missing_keys"]):
        raise DataError(f"{folder}: its weights lack `{absent[0]}`, and {len(absent) - 1} more")
    return bert


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the tables and bars that `transformers` prints while it loads."""
    from transformers.utils import logging

    level, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if had_bars:
            logging.enable_progress_bar()
