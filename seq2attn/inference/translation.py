"""The translation of a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seq2attn.models.attention_weights import AttentionWeights


@dataclass(frozen=True, repr=False)
class Translation:
    """A translation of a line, with its alternatives and attention weights."""

    text: str
    score: float
    log_prob: float
    tokens: tuple[str, ...]
    source_tokens: tuple[str, ...]
    alternatives: tuple[Translation, ...] = ()  # the other hypotheses, best first
    attention_weights: AttentionWeights | None = None  # only if requested
    segments: tuple[str, ...] = ()  # translated parts of a line that is too long
    ids: tuple[tuple[Sequence[int], tuple[int, ...]], ...] = ()  # of source and translation, of each segment
    truncated: bool = False  # True if it, or a segment, has the maximum length

    @property
    def cross_attention(self) -> NDArray[np.float32] | None:
        """Cross-attention weights [layers, heads, tokens + EOS, source tokens + EOS].

        For a line that was split, those of its segments block by block, with an EOS for each.
        """
        return None if self.attention_weights is None else self.attention_weights.cross_attention

    def __repr__(self) -> str:
        more = f", {len(self.alternatives)} alternatives" if self.alternatives else ""
        weights = "" if self.attention_weights is None else f", {self.attention_weights!r}"
        return f"Translation({self.text!r}, score={self.score:.4f}{more}{weights})"
