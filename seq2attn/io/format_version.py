"""The format version of run directories, exports, prepared data and sweep results, and its check."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seq2attn.errors import RunError

FORMAT_VERSION = 1


def check_format(content: Mapping[str, Any], path: Path, fix: str) -> None:
    """Check of the content of `path`; `fix` is the advice in the message. Raises: RunError for another version."""
    version = content.get("format")
    if version != FORMAT_VERSION or isinstance(version, bool):
        raise RunError(
            f"{path}: is of format {version}, and this seq2attn reads format {FORMAT_VERSION} only; use the seq2attn"
            f" that wrote it, or {fix}"
        )
