"""Batches of sentence pairs of similar lengths.

B sentences, S source words with EOS, T target words with BOS or EOS.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from seq2attn.errors import DataError
from seq2attn.nn.linear import ROW_MULTIPLE

MIN_FILL = 0.7
"""A batch this full ends rather than take a longer pair: less padding, few batches more."""

Indices: TypeAlias = NDArray[np.int64]


def plan_batches(
    lengths: NDArray[np.int64], *, tokens: int, seed: int, epoch: int, rank: int = 0, world: int = 1
) -> list[Indices]:
    """The batches of an epoch for one of `world` processes: a function of its arguments alone.

    `lengths` is [pairs, 2]. Every pair is in one batch of one rank. Rows x the longest sequence (with EOS) of
    either side are at most `tokens`, but for a pair that is longer alone. All ranks get equally many batches:
    where their number does not divide, those with the most rows are cut in two.

    Raises: DataError when there are too few pairs to give each rank one.
    """
    random = np.random.default_rng([seed, epoch])
    order = _length_order(lengths, random)
    batches = _split_for_ranks(_split_by_tokens(order, lengths.max(axis=1)[order] + 1, tokens), world)
    check_complete(batches, len(lengths))
    return [batches[index] for index in random.permutation(len(batches))[rank::world]]


def check_complete(batches: Sequence[Indices], num_pairs: int) -> None:
    """Raises RuntimeError unless each pair is in one batch: text that is left out would not be missed otherwise."""
    counts = np.bincount(np.concatenate(batches), minlength=num_pairs)
    if len(counts) != num_pairs or (counts != 1).any():
        raise RuntimeError(
            f"the batches of an epoch leave out {np.count_nonzero(counts == 0):,} of {num_pairs:,} pairs, and have"
            f" {np.count_nonzero(counts > 1):,} more than once; this is a defect of seq2attn, please report it"
        )


def padding_ratio(lengths: NDArray[np.int64], batches: Sequence[Indices]) -> float:
    """The share of the cells of both sides' tensors that hold padding."""
    cells = sum(len(batch) * int((lengths[batch].max(axis=0) + 1).sum()) for batch in batches)
    words = sum(int((lengths[batch] + 1).sum()) for batch in batches)
    return 1 - words / cells


def _length_order(lengths: NDArray[np.int64], random: np.random.Generator) -> Indices:
    """Neighbours are alike on both sides; which of the equals are neighbours is drawn."""
    longer, difference = lengths.max(axis=1), lengths[:, 0] - lengths[:, 1]
    # Back and forth, so that the shorter side does not jump where the longer grows by one.
    forth = (longer + random.integers(2)) % 2 == 0
    return np.lexsort((random.random(len(lengths)), np.where(forth, difference, -difference), longer))


def _split_by_tokens(order: Indices, widths: NDArray[np.int64], tokens: int) -> list[Indices]:
    """Consecutive runs of `order`, as long as rows x widest fit in `tokens`; `widths` never fall.

    Many rows are cut to a multiple of `ROW_MULTIPLE`, for oneDNN to multiply them.
    """
    batches, start, before = [], 0, 0
    for place, width in enumerate(widths.tolist()):
        rows = place - start
        is_enough = width > before and rows * before >= MIN_FILL * tokens
        if rows and (is_enough or (rows + 1) * width > tokens):
            end = place if rows < 2 * ROW_MULTIPLE else place - rows % ROW_MULTIPLE
            batches.append(order[start:end])
            start = end
        before = width
    return [*batches, order[start:]]


def _split_for_ranks(batches: list[Indices], world: int) -> list[Indices]:
    """As many batches for each rank, by halving those with the most rows."""
    heap = [(-len(batch), number) for number, batch in enumerate(batches)]
    heapq.heapify(heap)
    batches = list(batches)
    while len(batches) % world:
        rows, number = heap[0]
        if rows == -1:
            raise DataError(
                f"{len(batches)} batches of one pair each cannot be shared out equally to {world} processes: "
                f"allow more tokens in a batch, use fewer processes or more text"
            )
        batches[number], rest = np.array_split(batches[number], 2)
        heapq.heapreplace(heap, (-len(batches[number]), number))
        heapq.heappush(heap, (-len(rest), len(batches)))
        batches.append(rest)
    return batches


def batch_by_length(sources: Sequence[Sequence[int]], budget: int) -> list[list[int]]:
    """Which sources go together: the longest first, rows times width within the budget; the empty in none."""
    order = sorted((i for i, s in enumerate(sources) if len(s)), key=lambda i: -len(sources[i]))
    batches: list[list[int]] = []
    for index in order:
        width = len(sources[batches[-1][0]]) + 1 if batches else 0
        if not batches or (len(batches[-1]) + 1) * width > budget:
            batches.append([])
        batches[-1].append(index)
    return batches
