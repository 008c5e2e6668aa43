"""Results that a thread computes ahead, such as the next batch during an update."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")


def prefetch(function: Callable[[T], U], items: Iterable[T]) -> Iterator[U]:
    """`function` of each item, in order; a thread computes the next result while the current one is used."""
    current: Future[U] | None = None
    with ThreadPoolExecutor(1) as thread:
        for item in items:
            following = thread.submit(function, item)
            if current is not None:
                yield current.result()
            current = following
        if current is not None:
            yield current.result()
