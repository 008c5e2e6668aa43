"""The formats of all files that we write: which is the newest, and what is said of one that is not known.

A run says in `run.json` of which format it is; one without is older. `former.py` tells how those are read. The
other numbers stand in the files themselves. Where one is raised, what reads the file goes on to read the older ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seq2attn.errors import RunError

RUN = 3  # run.json, for config.yaml and all that is made by it
WEIGHTS = 1  # model.json
CHECKPOINT = 3  # state.json
ALIGNMENT = 1  # alignment.json
TOKENIZER = 2  # tokenizer.json
VOCABULARY = 1  # vocabulary.json
CORPUS = 1  # header.json of prepared ids
PREPARED = 2  # prepared.json
DATA_REPORT = 2  # data-report.json
EXPORT = 2  # seq2attn.json
SWEEP = 1  # cell.json, result.json


def format_of(content: Mapping[str, Any], newest: int, path: Path, fix: str) -> int:
    """The format that the content of `path` says it has, from 1 to `newest`.

    Raises: RunError for a newer one, or for none.
    """
    found = content.get("format")
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise RunError(f"{path}: says no format, so it is none of our files, or was damaged; {fix}")
    if found > newest:
        raise RunError(
            f"{path}: is of format {found}, made by a newer seq2attn than this one, which knows {_known(newest)}:"
            " pip install --upgrade seq2attn"
        )
    return found


def _known(newest: int) -> str:
    return "format 1" if newest == 1 else f"formats 1 to {newest}"
