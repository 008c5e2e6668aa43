"""Check of the input files that a config names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from seq2attn.config.base import FieldError, InputPath
from seq2attn.config.hints import suggest
from seq2attn.config.load import C, errors_at, load

_READS = InputPath.__metadata__[0]  # type: ignore[attr-defined]  # the mark of an input path


def load_with_files(path: Path, model: type[C], overrides: Sequence[str] = ()) -> C:
    """`load`, with errors for input files and folders that do not exist.

    Raises:
        ConfigError: all mistakes at once, each with its place.
    """
    config = load(path, model, overrides)
    missing = [
        FieldError(key, f"there is no such file: {file}{_similar(file)}")
        for key, file in _inputs(config)
        if not file.exists()
    ]
    if missing:
        raise errors_at(path, model, missing, overrides)
    return config


def _inputs(config: BaseModel, above: str = "") -> Iterator[tuple[str, Path]]:
    for name, field in type(config).model_fields.items():
        reads = _READS in field.metadata or _is_read(field.annotation)
        yield from _paths(getattr(config, name), f"{above}{name}", reads=reads)


def _is_read(annotation: Any) -> bool:
    return _READS in getattr(annotation, "__metadata__", ()) or any(map(_is_read, get_args(annotation)))


def _paths(value: Any, key: str, *, reads: bool) -> Iterator[tuple[str, Path]]:
    if isinstance(value, BaseModel):
        yield from _inputs(value, f"{key}.")
    elif isinstance(value, Path) and reads:
        yield key, value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _paths(item, f"{key}.{name}", reads=reads)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _paths(item, f"{key}.{number}", reads=reads)


def _similar(path: Path) -> str:
    known = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
    return suggest(path.name, known)
