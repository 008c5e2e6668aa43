"""Cross-attention weights of a given translation, from target words to source words.

L layers, H heads, T target words, S source words: words as links count them, not tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from seq2attn.data.word_alignment import AlignmentLink, split_words
from seq2attn.data.word_ids import IdsWithWords, encode_with_word_ids
from seq2attn.models import Seq2Seq
from seq2attn.models.attention_weights import cross_attention_weights
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.word_ids import pool_to_words

WordAttention: TypeAlias = NDArray[np.float32]
OUTPUT_STEP, INPUT_STEP = 0, 1
"""The step whose output is a target word, and the step whose input it is (Chen et al. 2020)."""


def word_attention_weights(
    model: Seq2Seq,
    tokenizers: tuple[Tokenizer, Tokenizer],
    pairs: Sequence[tuple[str, str]],
    *,
    budget: int = 4096,
) -> list[WordAttention | None]:
    """For each pair [2, L, H, T, S], output steps first; None where a side is empty, or there is no attention.

    Rows times the longer side are at most `budget` at a time.
    """
    cut = [tuple(encode_with_word_ids(*side) for side in zip(tokenizers, pair, strict=True)) for pair in pairs]
    full = [row for row, sides in enumerate(cut) if all(ids for ids, _ in sides)]
    ids = [(cut[row][0][0], cut[row][1][0]) for row in full]
    found: list[WordAttention | None] = [None] * len(pairs)
    for row, weights in zip(full, cross_attention_weights(model, ids, budget=budget), strict=True):
        if weights is not None:
            found[row] = _of_words(weights, *zip(cut[row], map(_count, pairs[row]), strict=True))
    return found


def argmax_links(weights: WordAttention) -> list[AlignmentLink]:
    """weights [T, S] -> each target word's link to the source word it looks at most (Garg et al. 2019, section 3).

    The first of equals; none where no word of the source was looked at at all.
    """
    return [(int(row.argmax()), word) for word, row in enumerate(weights) if row.any()]


def _count(line: str) -> int:
    return len(split_words(line))


def _of_words(
    weights: WordAttention, source: tuple[IdsWithWords, int], target: tuple[IdsWithWords, int]
) -> WordAttention:
    """[L, H, tokens + end, tokens + end] -> [2, L, H, T, S]: summed over a source word, the mean of a target word.

    What goes to the end of the source goes to no word.
    """
    (_, of_source), sources = source
    (_, of_target), targets = target
    steps = len(of_target)
    cells = np.stack([weights[:, :, :steps], weights[:, :, 1:]])[..., : len(of_source)]
    return pool_to_words(cells, (of_target, targets), (of_source, sources))
