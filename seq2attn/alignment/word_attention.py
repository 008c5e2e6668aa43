"""Cross-attention weights between the words of sentence pairs, by forced decoding.

L layers, H heads, T target words, S source words: words separated by white space, not tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from seq2attn.data.word_alignment import AlignmentLink, IdsWithWords, encode_with_word_ids, split_words
from seq2attn.models import Seq2Seq
from seq2attn.models.attention_weights import cross_attention_weights
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.tokenized_text import pool_to_words

WordAttention: TypeAlias = NDArray[np.float32]
OUTPUT_STEP, INPUT_STEP = 0, 1
"""Decoder steps of a target word: the step with the word as output, or as input (Chen et al. 2020)."""


def word_attention_weights(
    model: Seq2Seq,
    tokenizers: tuple[Tokenizer, Tokenizer],
    pairs: Sequence[tuple[str, str]],
    *,
    budget: int = 4096,
) -> list[WordAttention | None]:
    """For each pair [2, L, H, T, S], output steps first; None for a pair with an empty side, or without attention.

    `budget`: maximum rows times the longer side of a batch.
    """
    encoded = [tuple(encode_with_word_ids(*side) for side in zip(tokenizers, pair, strict=True)) for pair in pairs]
    rows = [row for row, sides in enumerate(encoded) if all(ids for ids, _ in sides)]
    ids = [(encoded[row][0][0], encoded[row][1][0]) for row in rows]
    output: list[WordAttention | None] = [None] * len(pairs)
    for row, weights in zip(rows, cross_attention_weights(model, ids, budget=budget), strict=True):
        if weights is not None:
            counts = (len(split_words(line)) for line in pairs[row])
            output[row] = _pool(weights, *zip(encoded[row], counts, strict=True))
    return output


def argmax_links(weights: WordAttention) -> list[AlignmentLink]:
    """weights [T, S] -> each target word's link to the source word of largest weight (Garg et al. 2019, section 3).

    The first of equals; no link for a row of zeros.
    """
    return [(int(row.argmax()), word) for word, row in enumerate(weights) if row.any()]


def _pool(weights: WordAttention, source: tuple[IdsWithWords, int], target: tuple[IdsWithWords, int]) -> WordAttention:
    """[L, H, tokens + EOS, tokens + EOS] -> [2, L, H, T, S]: sum over a source word, mean over a target word.

    Weights on the EOS of the source are dropped.
    """
    (_, source_word_ids), num_source_words = source
    (_, target_word_ids), num_target_words = target
    steps = np.stack([weights[:, :, : len(target_word_ids)], weights[:, :, 1:]])[..., : len(source_word_ids)]
    return pool_to_words(steps, (target_word_ids, num_target_words), (source_word_ids, num_source_words))
