"""Making what comes next while what is there is worked on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")


def prefetch(make: Callable[[T], U], items: Iterable[T]) -> Iterator[U]:
    """`make` of each item, in order; that of the next is made in a thread meanwhile."""
    items = iter(items)
    with ThreadPoolExecutor(1) as thread:
        coming = [thread.submit(make, item) for item in [next(items, None)] if item is not None]
        while coming:
            made = coming.pop()
            coming += [thread.submit(make, item) for item in [next(items, None)] if item is not None]
            yield made.result()
