"""Which pairs go together, and the tensors they become.

B sentences, S source words with EOS, T target words with BOS or EOS.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2attn.data.corpus import Corpus, Ids
from seq2attn.errors import DataError
from seq2attn.products import EVEN
from seq2attn.spans import Spans
from seq2attn.state import map_tensors
from seq2attn.text.vocabulary import BOS, EOS, PAD

IGNORE = -100
"""The label of padding: no loss there."""

FULL = 0.7
"""A batch this full ends rather than take a longer pair: less padding, few batches more."""

Indices: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Pairs as tensors. `target` is what a decoder reads, `labels` what it shall say next."""

    source: Tensor  # [B, S] ids, EOS last
    source_mask: Tensor  # [B, S] bool, True on words and EOS
    target: Tensor  # [B, T] BOS first
    labels: Tensor  # [B, T] EOS last, padding IGNORE
    said: Tensor  # [M] where among the B * T labels those are that are no padding
    guide: Tensor | None = (
        None  # [B, T, S] where to look when saying each label: shares, or nothing but zeros
    )
    spans: tuple[Spans, Spans] | None = None  # of source and target that lie in one row each: B is then 1

    def to(self, device: torch.device | str) -> Batch:
        """The batch on a device; from pinned memory it goes there while the device computes."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pinned(self) -> Batch:
        """The batch in memory that a card can read by itself."""
        return self._each(torch.Tensor.pin_memory)

    def _each(self, fn: Callable[[Tensor], Tensor]) -> Batch:
        plain = map_tensors(fn, replace(self, spans=None))
        if self.spans is None:
            return plain
        of_source, of_target = self.spans
        return replace(plain, spans=(of_source.map_tensors(fn), of_target.map_tensors(fn)))


def plan(
    lengths: NDArray[np.int64], *, tokens: int, seed: int, epoch: int, rank: int = 0, world: int = 1
) -> list[Indices]:
    """The batches of an epoch for one of `world` processes: a function of its arguments alone.

    `lengths` is [pairs, 2]. Every pair is in one batch of one rank. Rows x the longest sequence (with EOS) of
    either side are at most `tokens`, but for a pair that is longer alone. All ranks get equally many batches:
    where their number does not divide, those with the most rows are cut in two.

    Raises: DataError when there are too few pairs to give each rank one.
    """
    random = np.random.default_rng([seed, epoch])
    order = _by_length(lengths, random)
    batches = _even(_cut(order, lengths.max(axis=1)[order] + 1, tokens), world)
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


def padding_share(lengths: NDArray[np.int64], batches: Sequence[Indices]) -> float:
    """The share of the cells of both sides' tensors that hold padding."""
    cells = sum(len(batch) * int((lengths[batch].max(axis=0) + 1).sum()) for batch in batches)
    words = sum(int((lengths[batch] + 1).sum()) for batch in batches)
    return 1 - words / cells


def collate(pairs: Sequence[tuple[Sequence[int] | Ids, Sequence[int] | Ids]]) -> Batch:
    """Pairs of ids without BOS and EOS -> Batch."""
    source, source_mask = collate_source([source for source, _ in pairs])
    width = max(len(target) for _, target in pairs) + 1
    read, say = np.full((len(pairs), width), PAD), np.full((len(pairs), width), IGNORE)
    read[:, 0] = BOS
    for row, (_, target) in enumerate(pairs):
        read[row, 1 : len(target) + 1] = target
        say[row, : len(target)] = target
        say[row, len(target)] = EOS
    labels = torch.from_numpy(say)
    said = (
        (labels != IGNORE).flatten().nonzero().squeeze(1)
    )  # found here: on a device it would stop everything
    return Batch(source, source_mask, torch.from_numpy(read), labels, said)


def collate_packed(pairs: Sequence[tuple[Sequence[int] | Ids, Sequence[int] | Ids]]) -> Batch:
    """Pairs of ids without BOS and EOS -> Batch whose sentences lie in one row, without padding."""
    (source, of_source), (say, of_target) = (_in_a_row(side) for side in zip(*pairs, strict=True))
    read = np.roll(say, 1)  # each EOS comes to stand before the next sentence, where its BOS is
    read[of_target.offsets[:-1].numpy()] = BOS
    ids, target, labels = (torch.from_numpy(row)[None] for row in (source, read, say))
    mask = torch.ones_like(ids, dtype=torch.bool)
    return Batch(ids, mask, target, labels, torch.arange(len(say)), spans=(of_source, of_target))


def batch_of(corpus: Corpus, rows: Iterable[int], *, packed: bool = False) -> Batch:
    """Some pairs of a corpus, with their guide if it has one and they do not lie in one row."""
    rows = [int(row) for row in rows]
    if packed:
        return collate_packed([corpus[row] for row in rows])
    batch = collate([corpus[row] for row in rows])
    if corpus.guide is None:
        return batch
    guide = np.zeros((*batch.labels.shape, batch.source.size(1)), dtype=np.float32)
    for place, row in zip(guide, rows, strict=True):
        shares = _shares(corpus.guide.words[row], corpus.guide.links[row])
        place[: len(shares), : shares.shape[1]] = shares
    return replace(batch, guide=torch.from_numpy(guide))


def _in_a_row(sentences: Sequence[Sequence[int] | Ids]) -> tuple[NDArray[np.int64], Spans]:
    """Ids without EOS -> ids with EOS [M], and where each sentence lies."""
    spans = Spans.of(np.array([len(sentence) + 1 for sentence in sentences]))
    row, bounds = np.full(spans.position.size(1), EOS), spans.offsets.tolist()
    for start, end, sentence in zip(bounds, bounds[1:], sentences, strict=False):
        row[start : end - 1] = sentence
    return row, spans


def _shares(words: tuple[Ids, Ids], links: tuple[Ids, Ids]) -> NDArray[np.float32]:
    """For each target token equal shares for the source tokens of the words linked with its own (Chen et al. 2016).

    The words of tokens: [S], [T]; the words of links: [L], [L] -> [T, S]. A token without a link has zeros.
    """
    (of_source, of_target), (from_source, from_target) = words, links
    size = [
        max((int(part.max()) for part in parts if len(part)), default=0) + 1
        for parts in zip(words, links, strict=True)
    ]
    are_linked = np.zeros((size[1], size[0]), dtype=np.float32)
    are_linked[from_target, from_source] = 1
    cells = are_linked[of_target[:, None], of_source]
    return cells / np.maximum(cells.sum(axis=1, keepdims=True), 1)


def collate_source(sources: Sequence[Sequence[int] | Ids]) -> tuple[Tensor, Tensor]:
    """Ids without EOS -> ids with EOS [B, S], mask [B, S]."""
    ends = np.array([len(source) for source in sources])
    width = int(ends.max()) + 1
    ids = np.full((len(sources), width), PAD)
    for row, source in enumerate(sources):
        ids[row, : len(source)] = source
        ids[row, len(source)] = EOS
    return torch.from_numpy(ids), torch.from_numpy(np.arange(width) <= ends[:, None])


def _by_length(lengths: NDArray[np.int64], random: np.random.Generator) -> Indices:
    """Neighbours are alike on both sides; which of the equals are neighbours is drawn."""
    longer, difference = lengths.max(axis=1), lengths[:, 0] - lengths[:, 1]
    # Back and forth, so that the shorter side does not jump where the longer grows by one.
    forth = (longer + random.integers(2)) % 2 == 0
    return np.lexsort((random.random(len(lengths)), np.where(forth, difference, -difference), longer))


def _cut(order: Indices, widths: NDArray[np.int64], tokens: int) -> list[Indices]:
    """Consecutive runs of `order`, as long as rows x widest fit in `tokens`; `widths` never fall.

    Many rows are cut to a multiple of `EVEN`, for oneDNN to multiply them.
    """
    batches, start, before = [], 0, 0
    for place, width in enumerate(widths.tolist()):
        rows = place - start
        is_enough = width > before and rows * before >= FULL * tokens
        if rows and (is_enough or (rows + 1) * width > tokens):
            end = place if rows < 2 * EVEN else place - rows % EVEN
            batches.append(order[start:end])
            start = end
        before = width
    return [*batches, order[start:]]


def _even(batches: list[Indices], world: int) -> list[Indices]:
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
