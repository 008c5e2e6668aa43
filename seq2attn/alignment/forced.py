"""Where a model looks when it reads a given translation, from words to words.

L layers, H heads, T target words, S source words: words as links count them, not tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from seq2attn.data.batches import collate
from seq2attn.data.links import Link, split_words
from seq2attn.data.word_numbers import Numbered, encode_numbered
from seq2attn.model import Seq2Seq
from seq2attn.search.batched import by_length
from seq2attn.text.numbering import between_words
from seq2attn.text.tokenizer import Tokenizer

Weights: TypeAlias = NDArray[np.float32]
SAYING, READING = 0, 1
"""The step that says a target word, and the step that reads it to say the next (Chen et al. 2020)."""


@torch.no_grad()
def word_weights(
    model: Seq2Seq,
    tokenizers: tuple[Tokenizer, Tokenizer],
    pairs: Sequence[tuple[str, str]],
    *,
    budget: int = 4096,
) -> list[Weights | None]:
    """For each pair [2, L, H, T, S], steps that say first; None where a side is empty, or there is no attention.

    The target is read once, with all its words given; rows times the longer side are at most `budget` at a time.
    """
    device = next(model.parameters()).device
    cut = [tuple(encode_numbered(*side) for side in zip(tokenizers, pair, strict=True)) for pair in pairs]
    found: list[Weights | None] = [None] * len(pairs)
    for rows in by_length([range(_longer(*sides)) for sides in cut], budget):
        batch = collate([(cut[row][0][0], cut[row][1][0]) for row in rows]).to(device)
        weights = model(batch.source, batch.source_mask, batch.target, need_weights=True).weights
        if weights is not None:
            for row, one in zip(rows, weights.float().cpu().numpy(), strict=True):
                found[row] = _of_words(one, *zip(cut[row], map(_count, pairs[row]), strict=True))
    return found


def links(weights: Weights) -> list[Link]:
    """weights [T, S] -> each target word's link to the source word it looks at most (Garg et al. 2019, section 3).

    The first of equals; none where no word of the source was looked at at all.
    """
    return [(int(row.argmax()), word) for word, row in enumerate(weights) if row.any()]


def _longer(source: Numbered, target: Numbered) -> int:
    return max(len(source[0]), len(target[0])) if source[0] and target[0] else 0


def _count(line: str) -> int:
    return len(split_words(line))


def _of_words(weights: Weights, source: tuple[Numbered, int], target: tuple[Numbered, int]) -> Weights:
    """[L, H, tokens + end, tokens + end] -> [2, L, H, T, S]: summed over a source word, the mean of a target word.

    What goes to the end of the source goes to no word.
    """
    (_, of_source), sources = source
    (_, of_target), targets = target
    steps = len(of_target)
    cells = np.stack([weights[:, :, :steps], weights[:, :, 1 : steps + 1]])[..., : len(of_source)]
    return between_words(cells, (of_target, targets), (of_source, sources))
