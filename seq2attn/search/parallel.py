"""Work on a CPU's batches side by side, each on a processor of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Work = TypeVar("Work")
Done = TypeVar("Done")


def map_parallel(fn: Callable[[Work], Done], batches: Sequence[Work]) -> Iterator[Done]:
    """`fn` of each batch, in their order, on as many threads as PyTorch may use.

    The tensors of a search step are too small to be worth cutting up among them: two batches on a processor each are
    done sooner than one after the other on both.
    """
    threads = torch.get_num_threads()
    if min(threads, len(batches)) < 2 or torch.is_autocast_enabled("cpu"):  # autocasting is a thread's own
        yield from map(fn, batches)
        return
    try:
        with ThreadPoolExecutor(
            min(threads, len(batches)), initializer=torch.set_num_threads, initargs=(1,)
        ) as pool:
            yield from pool.map(fn, batches)
    finally:
        torch.set_num_threads(threads)  # for threads that are yet to come
