"""Tensors of a batch of sentence pairs, and the batches of sources to translate.

B sentences, S source tokens with EOS, T target tokens with BOS or EOS.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2attn.data.batch_planner import Indices
from seq2attn.data.corpus import Corpus, Sentences, TokenIds
from seq2attn.nn.packing import SequenceLayout, Sequences
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD

IGNORE_INDEX = -100
"""The label of padding, which has no loss."""


@dataclass(frozen=True)
class Batch:
    """Pairs as tensors: `target` is the input of the decoder, `labels` are the tokens that it is to predict."""

    source: Tensor  # [B, S] ids, EOS last
    sequences: Sequences  # of the source: tokens and EOS
    target: Tensor  # [B, T] BOS first
    labels: Tensor  # [B, T] EOS last, padding IGNORE_INDEX
    label_index: Tensor  # [M] positions of labels other than padding among the B * T
    alignment_targets: Tensor | None = None  # [B, T, S] attention weights to train towards; zeros without a link
    target_layout: SequenceLayout | None = None  # of a padding-free target, where B is 1

    def to(self, device: torch.device | str) -> Self:
        """The batch on a device; copied asynchronously from pinned memory."""
        return self._map_tensors(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Self:
        """The batch in page-locked memory."""
        return self._map_tensors(torch.Tensor.pin_memory)

    def _map_tensors(self, fn: Callable[[Tensor], Tensor]) -> Self:
        tensors: dict[str, Any] = {name: fn(value) for name, value in vars(self).items() if isinstance(value, Tensor)}
        layouts = (self.sequences.layout, self.target_layout)
        source_layout, target_layout = (None if layout is None else layout.map_tensors(fn) for layout in layouts)
        sequences = Sequences(fn(self.sequences.mask), self.sequences.lengths, source_layout)
        return replace(self, sequences=sequences, target_layout=target_layout, **tensors)


@dataclass(frozen=True)
class MicroBatch:
    """Sentence pairs that go through the model together."""

    rows: Indices  # of the corpus
    batch: Batch

    @property
    def num_tokens(self) -> int:
        """Rows times the longer side."""
        return max(self.batch.source.numel(), self.batch.target.numel())


def count_target_tokens(micro_batches: Iterable[MicroBatch]) -> float:
    """Number of target tokens of micro-batches."""
    return float(sum(len(micro_batch.batch.label_index) for micro_batch in micro_batches))


def collate(
    pairs: Sequence[tuple[Sequence[int] | TokenIds, Sequence[int] | TokenIds]], *, packed: bool = False
) -> Batch:
    """Pairs of ids without BOS and EOS -> Batch; `packed`: all sentences in one row, without padding."""
    source, target = (_concat(side) for side in zip(*pairs, strict=True))
    return _pack_pairs(source, target) if packed else _pad_pairs(source, target)


def make_batch(corpus: Corpus, rows: Iterable[int], *, packed: bool = False) -> Batch:
    """The pairs of a corpus at `rows`, with their alignments if there are any and the batch has padding."""
    index = np.fromiter(rows, dtype=np.int64)
    source, target = corpus.select(index)
    if packed:
        return _pack_pairs(source, target)
    batch = _pad_pairs(source, target)
    if corpus.alignments is None:
        return batch
    alignment_targets = np.zeros((*batch.labels.shape, batch.source.size(1)), dtype=np.float32)
    for targets, row in zip(alignment_targets, index, strict=True):
        weights = _alignment_weights(corpus.alignments.word_ids[row], corpus.alignments.links[row])
        targets[: len(weights), : weights.shape[1]] = weights
    return replace(batch, alignment_targets=torch.from_numpy(alignment_targets))


def make_micro_batches(corpus: Corpus, update: Iterable[Indices], *, packed: bool, pinned: bool) -> list[MicroBatch]:
    """The micro-batches of an update, whose rows of the corpus are in `update`."""
    batches = ((rows, make_batch(corpus, rows, packed=packed)) for rows in update)
    return [MicroBatch(rows, batch.pin_memory() if pinned else batch) for rows, batch in batches]


def collate_source(
    sources: Sequence[Sequence[int] | TokenIds], device: torch.device | str = "cpu"
) -> tuple[Tensor, Sequences]:
    """Ids without EOS -> ids with EOS [B, S], padded, on a device."""
    tokens, lengths = _concat(sources)
    ids, mask = _pad(tokens, lengths, PAD)
    sequences = Sequences(torch.from_numpy(mask).to(device), torch.from_numpy(lengths + 1))
    return torch.from_numpy(ids).to(device), sequences


def _concat(sentences: Sequence[Sequence[int] | TokenIds]) -> Sentences:
    lengths = np.array([len(sentence) for sentence in sentences])
    return np.fromiter(chain.from_iterable(sentences), dtype=np.int64, count=lengths.sum()), lengths


def _pad_pairs(source: Sentences, target: Sentences) -> Batch:
    (source_ids, source_mask), (labels, target_mask) = _pad(*source, PAD), _pad(*target, IGNORE_INDEX)
    inputs = np.full_like(labels, PAD)
    inputs[:, 0] = BOS
    inputs[:, 1:][target_mask[:, 1:]] = target[0]
    ids, mask, target_ids, label_ids = map(torch.from_numpy, (source_ids, source_mask, inputs, labels))
    # The index is computed on the CPU, as it would synchronize with a GPU.
    label_index = torch.from_numpy(np.flatnonzero(target_mask))
    sequences = Sequences(mask, torch.from_numpy(source[1] + 1))
    return Batch(ids, sequences, target_ids, label_ids, label_index)


def _pack_pairs(source: Sentences, target: Sentences) -> Batch:
    (source_ids, source_layout), (labels, target_layout) = _pack(*source), _pack(*target)
    inputs = np.roll(labels, 1)  # each EOS moves to the beginning of the next sentence, the place of its BOS
    inputs[target_layout.cu_seqlens[:-1].numpy()] = BOS
    ids, target_ids, label_ids = (torch.from_numpy(row)[None] for row in (source_ids, inputs, labels))
    sequences = Sequences(torch.ones_like(ids, dtype=torch.bool), layout=source_layout)
    return Batch(ids, sequences, target_ids, label_ids, torch.arange(len(labels)), target_layout=target_layout)


def _pad(
    tokens: NDArray[np.integer[Any]], lengths: NDArray[np.int64], padding: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Tokens of sentences without EOS [M], and their lengths [B] -> padded, with EOS [B, longest + 1], and mask"""
    mask = np.arange(lengths.max() + 1) <= lengths[:, None]
    padded = np.where(mask, EOS, padding)
    padded[:, :-1][mask[:, 1:]] = tokens
    return padded, mask


def _pack(tokens: NDArray[np.integer[Any]], lengths: NDArray[np.int64]) -> tuple[NDArray[np.int64], SequenceLayout]:
    """Tokens of sentences without EOS [M], and their lengths [B] -> with EOS [M + B], and the bounds of each"""
    return np.insert(tokens.astype(np.int64), lengths.cumsum(), EOS), SequenceLayout.from_lengths(lengths + 1)


def _alignment_weights(words: tuple[TokenIds, TokenIds], links: tuple[TokenIds, TokenIds]) -> NDArray[np.float32]:
    """For each target token equal weights on the source tokens of all words linked with its word (Chen et al. 2016).

    The words of tokens: [S], [T]; the words of links: [L], [L] -> [T, S]. A token without a link has zeros.
    """
    (source_words, target_words), (linked_sources, linked_targets) = words, links
    num_sources, num_targets = (
        max((int(part.max()) for part in parts if len(part)), default=0) + 1 for parts in zip(words, links, strict=True)
    )
    are_linked = np.zeros((num_targets, num_sources), dtype=np.float32)
    are_linked[linked_targets, linked_sources] = 1
    weights = are_linked[target_words[:, None], source_words]
    return weights / np.maximum(weights.sum(axis=1, keepdims=True), 1)


def batch_by_length(sources: Sequence[Sequence[int]], budget: int) -> list[list[int]]:
    """Indices of non-empty sources in batches, longest first; rows times width are at most `budget`."""
    order = sorted((i for i, s in enumerate(sources) if len(s)), key=lambda i: -len(sources[i]))
    batches: list[list[int]] = []
    for index in order:
        width = len(sources[batches[-1][0]]) + 1 if batches else 0
        if not batches or (len(batches[-1]) + 1) * width > budget:
            batches.append([])
        batches[-1].append(index)
    return batches
