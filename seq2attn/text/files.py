"""Files that are either whole or not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from seq2attn.errors import RunError


def write_bytes(path: Path, content: bytes) -> None:
    """Write `path` so that a reader, or a crash, never meets half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content)
    partial.replace(path)


def write_json(path: Path, content: Any) -> None:
    """Write `content` as readable JSON, whole or not at all."""
    write_bytes(path, (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode())


def read_bytes(path: Path, fix: str) -> bytes:
    """The content of a file of a run; `fix` says what to do when it is missing.

    Raises: RunError.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}); {fix}") from None


def read_object(path: Path, fix: str) -> dict[str, Any]:
    """The JSON object in a file of a run.

    Raises: RunError, also for what is no JSON object.
    """
    try:
        content = json.loads(read_bytes(path, fix))
    except ValueError as error:
        raise RunError(f"{path}: is not JSON ({error}); {fix}") from None
    if not isinstance(content, dict):
        raise RunError(f"{path}: expected a JSON object, found a {type(content).__name__}; {fix}")
    return content
