"""The version of the files that we write, in `format` of `run.json` and of what is read by itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seq2attn.errors import RunError

FORMAT_VERSION = 1


def check_format(content: Mapping[str, Any], path: Path, fix: str) -> None:
    """A check of the content of `path`; `fix` says how the file is made anew. Raises: RunError for another version."""
    found = content.get("format")
    if found != FORMAT_VERSION or isinstance(found, bool):
        raise RunError(
            f"{path}: is of format {found}, and this seq2attn reads format {FORMAT_VERSION} only; use the seq2attn that"
            f" wrote it, or {fix}"
        )
