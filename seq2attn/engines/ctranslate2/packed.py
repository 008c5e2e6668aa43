"""The head of each part of CTranslate2's `model.bin`, read before CTranslate2 does: it believes all lengths in it.

    version, name, revision, number of variables        I, text, I, I
    of each: name, rank, shape, type, bytes, content    text, B, rank x I, B, I, bytes
    number of aliases, of each: alias, variable         I, text, text

A text is its length with the zero at its end (H), and both; numbers are little-endian. Checked here is that all of it
lies in the file, and that shapes are those of their contents: what is loaded is then no larger than the file.
"""

from __future__ import annotations

import struct
from math import prod
from pathlib import Path
from typing import BinaryIO

from seq2attn.errors import RunError
from seq2attn.text.files import open_regular

VERSION = 6
SIZES = 4, 1, 2, 4, 2, 2
"""Bytes of a number of each type: float32, int8, int16, int32, float16, bfloat16."""


def check_packed(path: Path, fix: str) -> None:
    """Refuse a `model.bin` that is torn or forged. Raises RunError."""
    try:
        with open_regular(path) as file:
            _check(file, path.stat().st_size)
    except (OSError, ValueError, struct.error) as error:
        raise RunError(f"{path}: is no model of CTranslate2, or is damaged ({error}); {fix}") from None


def _check(file: BinaryIO, size: int) -> None:
    (version,) = _numbers(file, "I")
    if version != VERSION:
        raise ValueError(f"its version is {version}, and {VERSION} is what was exported")
    _text(file)
    _, variables = _numbers(file, "II")
    names = set[str]()
    for _ in range(variables):
        names.add(name := _text(file))
        (rank,) = _numbers(file, "B")
        shape = _numbers(file, f"{rank}I")
        type_, length = _numbers(file, "BI")
        if type_ >= len(SIZES) or prod(shape) * SIZES[type_] != length:
            raise ValueError(f"`{name}` is not of the size that its shape says")
        if file.seek(length, 1) > size:
            raise ValueError(f"`{name}` leads out of the file")
    (aliases,) = _numbers(file, "I")
    for _ in range(aliases):
        _text(file)
        if (name := _text(file)) not in names:
            raise ValueError(f"there is no `{name}`")
    if file.read(1):
        raise ValueError("there is more in it than it says")


def _numbers(file: BinaryIO, form: str) -> tuple[int, ...]:
    return struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))


def _text(file: BinaryIO) -> str:
    (length,) = _numbers(file, "H")
    return file.read(length).decode("utf-8")
