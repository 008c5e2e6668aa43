"""The text of prepared pairs, beside their ids: a JSON array a line, since text may hold any character."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from seq2attn.errors import RunError
from seq2attn.io.files import atomic_path, parse_json
from seq2attn.io.text_lines import read_lines

Pair = tuple[str, str]


@contextmanager
def text_pair_writer(path: Path) -> Iterator[Callable[[Pair], None]]:
    """A function that adds a pair to `path`; the file is there, whole, after the `with`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as partial, partial.open("w", encoding="utf-8", newline="\n") as stream:
        yield lambda pair: print(json.dumps(pair, ensure_ascii=False), file=stream)


def read_text_pairs(path: Path) -> Iterator[Pair]:
    """The pairs written to `path`.

    Raises: RunError when the file is missing, or corrupt.
    """
    fix = f"remove the folder {path.parent} and prepare the data again"
    if not path.is_file():
        raise RunError(f"{path}: is missing; {fix}")
    for number, line in enumerate(read_lines(path), start=1):
        pair = parse_json(line, path, fix)
        if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(text, str) for text in pair)):
            raise RunError(f"{path}:{number}: is no pair of texts; {fix}")
        yield pair[0], pair[1]
