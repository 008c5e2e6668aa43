"""The text of prepared pairs, beside their ids: a JSON array a line, since text may hold any character."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from seq2attn.errors import RunError
from seq2attn.text.lines import read_lines

Pair = tuple[str, str]


@contextmanager
def texts_writer(path: Path) -> Iterator[Callable[[Pair], None]]:
    """A function that adds a pair to `path`; the file is there, whole, after the `with`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8", newline="\n") as stream:
        yield lambda pair: print(json.dumps(pair, ensure_ascii=False), file=stream)
    partial.replace(path)


def read_texts(path: Path) -> Iterator[Pair]:
    """The pairs written to `path`.

    Raises: RunError when the file is missing.
    """
    if not path.is_file():
        raise RunError(f"{path}: is missing; remove the folder {path.parent} and prepare the data again")
    for line in read_lines(path):
        source, target = json.loads(line)
        yield source, target
