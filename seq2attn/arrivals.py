"""Lines as they come: one at a time from a person, many at a time from a file or a fast pipe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

MOST = 2**18
"""Bytes read at once: thousands of lines of a file. A pipe itself holds back what comes in the meantime."""


def arriving(stream: BinaryIO, most: int = MOST) -> Iterator[list[bytes]]:
    """The lines of a buffered stream, without their ends, in groups of all that have come; at least one in each.

    Lines end with "\\n" only, so that as many come out as went in, whatever else is in them. A file is always cut
    into the same groups.
    """
    begun: list[bytes] = []
    while some := stream.read1(most):  # type: ignore[attr-defined]  # what there is, without waiting for more
        *ended, rest = some.split(b"\n")
        if ended:
            ended[0] = b"".join([*begun, ended[0]])
            begun = []
            yield ended
        begun.append(rest)
    if last := b"".join(begun):
        yield [last]
