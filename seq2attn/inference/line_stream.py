"""Lines as they come: one at a time from a person, many at a time from a file or a fast pipe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from seq2attn.io.text_lines import MAX_LINE_BYTES, too_long

READ_SIZE = 2**18
"""Bytes read at once: thousands of lines of a file. A pipe itself holds back what comes in the meantime."""


def read_line_batches(stream: BinaryIO, most: int = READ_SIZE) -> Iterator[list[bytes]]:
    """The lines of a buffered stream, without their ends, in groups of all that have come; at least one in each.

    Lines end with "\\n" only, so that as many come out as went in, whatever else is in them. A file is always cut
    into the same groups.

    Raises: DataError for a line that is too long to be one.
    """
    begun, count = list[bytes](), 0
    while some := stream.read1(most):  # type: ignore[attr-defined]  # what there is, without waiting for more
        *ended, rest = some.split(b"\n")
        if ended:
            ended[0] = b"".join([*begun, ended[0]])
            begun, count = [], count + len(ended)
            yield ended
        begun.append(rest)
        if sum(map(len, begun)) > MAX_LINE_BYTES:
            raise too_long(f"line {count + 1:,} of the input")
    if last := b"".join(begun):
        yield [last]
