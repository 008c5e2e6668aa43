"""Tensors of a batch of sentence pairs.

B sentences, S source words with EOS, T target words with BOS or EOS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2attn.data.corpus import Corpus, TokenIds
from seq2attn.nn.varlen import SequenceLayout
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD

IGNORE_INDEX = -100
"""The label of padding: no loss there."""


@dataclass(frozen=True)
class Batch:
    """Pairs as tensors. `target` is what a decoder reads, `labels` what it shall say next."""

    source: Tensor  # [B, S] ids, EOS last
    source_mask: Tensor  # [B, S] bool, True on words and EOS
    target: Tensor  # [B, T] BOS first
    labels: Tensor  # [B, T] EOS last, padding IGNORE
    label_index: Tensor  # [M] where among the B * T labels those are that are no padding
    alignment_targets: Tensor | None = (
        None  # [B, T, S] where to look when saying each label: shares, or nothing but zeros
    )
    layouts: tuple[SequenceLayout, SequenceLayout] | None = (
        None  # of source and target that lie in one row each: B is then 1
    )

    def to(self, device: torch.device | str) -> Batch:
        """The batch on a device; from pinned memory it goes there while the device computes."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Batch:
        """The batch in memory that a GPU can read by itself."""
        return self._each(torch.Tensor.pin_memory)

    def _each(self, fn: Callable[[Tensor], Tensor]) -> Batch:
        tensors: dict[str, Any] = {name: fn(value) for name, value in vars(self).items() if isinstance(value, Tensor)}
        if self.layouts is not None:
            tensors["layouts"] = tuple(layout.map_tensors(fn) for layout in self.layouts)
        return replace(self, **tensors)


def collate(pairs: Sequence[tuple[Sequence[int] | TokenIds, Sequence[int] | TokenIds]]) -> Batch:
    """Pairs of ids without BOS and EOS -> Batch."""
    source, source_mask = collate_source([source for source, _ in pairs])
    width = max(len(target) for _, target in pairs) + 1
    read, say = np.full((len(pairs), width), PAD), np.full((len(pairs), width), IGNORE_INDEX)
    read[:, 0] = BOS
    for row, (_, target) in enumerate(pairs):
        read[row, 1 : len(target) + 1] = target
        say[row, : len(target)] = target
        say[row, len(target)] = EOS
    labels = torch.from_numpy(say)
    # On the CPU, as it would wait for a GPU.
    label_index = (labels != IGNORE_INDEX).flatten().nonzero().squeeze(1)
    return Batch(source, source_mask, torch.from_numpy(read), labels, label_index)


def collate_padding_free(pairs: Sequence[tuple[Sequence[int] | TokenIds, Sequence[int] | TokenIds]]) -> Batch:
    """Pairs of ids without BOS and EOS -> Batch whose sentences lie in one row, without padding."""
    (source, of_source), (say, of_target) = (_concat_sentences(side) for side in zip(*pairs, strict=True))
    read = np.roll(say, 1)  # each EOS comes to stand before the next sentence, where its BOS is
    read[of_target.cu_seqlens[:-1].numpy()] = BOS
    ids, target, labels = (torch.from_numpy(row)[None] for row in (source, read, say))
    mask = torch.ones_like(ids, dtype=torch.bool)
    return Batch(ids, mask, target, labels, torch.arange(len(say)), layouts=(of_source, of_target))


def make_batch(corpus: Corpus, rows: Iterable[int], *, packed: bool = False) -> Batch:
    """Some pairs of a corpus, with their guide if it has one and they do not lie in one row."""
    rows = [int(row) for row in rows]
    if packed:
        return collate_padding_free([corpus[row] for row in rows])
    batch = collate([corpus[row] for row in rows])
    if corpus.alignments is None:
        return batch
    guide = np.zeros((*batch.labels.shape, batch.source.size(1)), dtype=np.float32)
    for place, row in zip(guide, rows, strict=True):
        shares = _alignment_shares(corpus.alignments.word_ids[row], corpus.alignments.links[row])
        place[: len(shares), : shares.shape[1]] = shares
    return replace(batch, alignment_targets=torch.from_numpy(guide))


def _concat_sentences(
    sentences: Sequence[Sequence[int] | TokenIds],
) -> tuple[NDArray[np.int64], SequenceLayout]:
    """Ids without EOS -> ids with EOS [M], and where each sentence lies."""
    layout = SequenceLayout.from_lengths(np.array([len(sentence) + 1 for sentence in sentences]))
    row, bounds = np.full(layout.positions.size(1), EOS), layout.cu_seqlens.tolist()
    for start, end, sentence in zip(bounds, bounds[1:], sentences, strict=False):
        row[start : end - 1] = sentence
    return row, layout


def _alignment_shares(words: tuple[TokenIds, TokenIds], links: tuple[TokenIds, TokenIds]) -> NDArray[np.float32]:
    """For each target token equal shares for the source tokens of the words linked with its own (Chen et al. 2016).

    The words of tokens: [S], [T]; the words of links: [L], [L] -> [T, S]. A token without a link has zeros.
    """
    (of_source, of_target), (from_source, from_target) = words, links
    size = [
        max((int(part.max()) for part in parts if len(part)), default=0) + 1 for parts in zip(words, links, strict=True)
    ]
    are_linked = np.zeros((size[1], size[0]), dtype=np.float32)
    are_linked[from_target, from_source] = 1
    cells = are_linked[of_target[:, None], of_source]
    return cells / np.maximum(cells.sum(axis=1, keepdims=True), 1)


def collate_source(sources: Sequence[Sequence[int] | TokenIds]) -> tuple[Tensor, Tensor]:
    """Ids without EOS -> ids with EOS [B, S], mask [B, S]."""
    ends = np.array([len(source) for source in sources])
    width = int(ends.max()) + 1
    ids = np.full((len(sources), width), PAD)
    for row, source in enumerate(sources):
        ids[row, : len(source)] = source
        ids[row, len(source)] = EOS
    return torch.from_numpy(ids), torch.from_numpy(np.arange(width) <= ends[:, None])
