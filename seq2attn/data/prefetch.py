"""Prefetching of results in a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")


def prefetch(function: Callable[[T], U], items: Iterable[T]) -> Iterator[U]:
    """`function` of each item, in order; a thread computes the next result while the current one is used."""
    items = iter(items)
    with ThreadPoolExecutor(1) as thread:
        pending = [thread.submit(function, item) for item in [next(items, None)] if item is not None]
        while pending:
            current = pending.pop()
            pending += [thread.submit(function, item) for item in [next(items, None)] if item is not None]
            yield current.result()
