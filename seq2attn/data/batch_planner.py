"""Batches of sentence pairs of similar lengths."""

import heapq
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from seq2attn.errors import DataError

MIN_FILL = 0.7
"""A batch that is filled to this share of `tokens` is closed before a longer pair: less padding, a few more batches."""

Indices: TypeAlias = NDArray[np.int64]


def plan_batches(
    lengths: NDArray[np.int64],
    *,
    tokens: int,
    seed: int,
    epoch: int,
    rank: int = 0,
    num_ranks: int = 1,
    row_multiple: int = 1,
) -> list[Indices]:
    """The batches of an epoch for one of `num_ranks` processes: a function of its arguments alone.

    `lengths` is [pairs, 2]. Every pair is in one batch of one rank. Rows times the longest sequence (with EOS) of
    either side are at most `tokens`, except for a single pair that is longer. All ranks get the same number of
    batches: if necessary, the batches with the most rows are halved. Large batches have a multiple of `row_multiple`
    rows.

    Raises DataError when there are fewer pairs than ranks.
    """
    random = np.random.default_rng([seed, epoch])
    order = _length_order(lengths, random)
    widths = lengths.max(axis=1)[order] + 1
    batches = _split_for_ranks(_split_by_tokens(order, widths, tokens, row_multiple), num_ranks)
    return [batches[index] for index in random.permutation(len(batches))[rank::num_ranks]]


def padding_ratio(lengths: NDArray[np.int64], batches: Sequence[Indices]) -> float:
    """The share of padding in the tensors of both sides."""
    cells = sum(len(batch) * int((lengths[batch].max(axis=0) + 1).sum()) for batch in batches)
    tokens = sum(int((lengths[batch] + 1).sum()) for batch in batches)
    return 1 - tokens / cells


def _length_order(lengths: NDArray[np.int64], random: np.random.Generator) -> Indices:
    """An order with similar lengths side by side, on both sides; random among pairs of the same lengths."""
    longer, difference = lengths.max(axis=1), lengths[:, 0] - lengths[:, 1]
    # Alternating direction, so that the shorter side does not jump where the longer grows by one.
    is_ascending = (longer + random.integers(2)) % 2 == 0
    return np.lexsort((random.random(len(lengths)), np.where(is_ascending, difference, -difference), longer))


def _split_by_tokens(order: Indices, widths: NDArray[np.int64], tokens: int, row_multiple: int) -> list[Indices]:
    """Consecutive runs of `order` whose rows times the largest width are at most `tokens`; `widths` ascend."""
    batches, start, previous_width = [], 0, 0
    for index, width in enumerate(widths.tolist()):
        rows = index - start
        is_full = width > previous_width and rows * previous_width >= MIN_FILL * tokens
        if rows and (is_full or (rows + 1) * width > tokens):
            rest = rows % row_multiple if rows >= 2 * row_multiple else 0
            end = index - rest if (rest + 1) * width <= tokens else index
            batches.append(order[start:end])
            start = end
        previous_width = width
    return [*batches, order[start:]]


def _split_for_ranks(batches: list[Indices], num_ranks: int) -> list[Indices]:
    """Batches whose number is a multiple of `num_ranks`, by halving those with the most rows."""
    heap = [(-len(batch), number) for number, batch in enumerate(batches)]
    heapq.heapify(heap)
    batches = list(batches)
    while len(batches) % num_ranks:
        rows, number = heap[0]
        if rows == -1:
            raise DataError(
                f"batches of one pair each, {len(batches)} in all, cannot be shared equally by {num_ranks} processes: "
                f"allow more tokens in a batch, use fewer processes or more text"
            )
        batches[number], rest = np.array_split(batches[number], 2)
        heapq.heapreplace(heap, (-len(batches[number]), number))
        heapq.heappush(heap, (-len(rest), len(batches)))
        batches.append(rest)
    return batches
