"""Results that a thread computes ahead, such as the next batch during an update."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, pairwise
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")


def prefetch(function: Callable[[T], U], items: Iterable[T]) -> Iterator[U]:
    """`function` of each item, in order; a thread computes the next result while the current one is used."""
    with ThreadPoolExecutor(1) as thread:
        submitted = (thread.submit(function, item) for item in items)
        for current, _ in pairwise(chain(submitted, [Future[U]()])):  # after the last there is nothing to compute
            yield current.result()
