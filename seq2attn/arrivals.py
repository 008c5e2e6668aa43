"""Lines as they come: one at a time from a person, many at a time from a file or a fast pipe."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import BinaryIO


def arriving(stream: BinaryIO, most: int = 4096) -> Iterator[list[bytes]]:
    """The lines of a stream, without their ends, in groups of all that have come, at least one and at most `most`.

    Lines end with "\\n" only, so that as many come out as went in, whatever else is in them.
    """
    lines: queue.Queue[bytes | None] = queue.Queue(2 * most)

    def read() -> None:
        for line in stream:
            lines.put(line.removesuffix(b"\n"))
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    group: list[bytes] = []
    while (line := lines.get()) is not None:
        group.append(line)
        if lines.empty() or len(group) == most:
            yield group
            group = []
    if group:
        yield group
