"""One translation of a line, with its alternatives and its attention weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seq2attn.models.attention_weights import AttentionWeights


@dataclass(frozen=True, repr=False)
class Translation:
    """One translation of one line."""

    text: str
    score: float
    log_prob: float
    tokens: tuple[str, ...]
    source_tokens: tuple[str, ...]
    alternatives: tuple[Translation, ...] = ()  # the other hypotheses, best first
    attention_weights: AttentionWeights | None = None  # when it was asked for
    segments: tuple[str, ...] = ()  # what was translated of a line that is too long: parts, or its beginning
    truncated: bool = False  # whether it, or a part of it, became as long as it may be

    @property
    def cross_attention(self) -> NDArray[np.float32] | None:
        """Where it looked in the source, [layers, heads, tokens + end, source tokens + end].

        Of a line that was translated in parts: theirs one after the other, with an end for each.
        """
        return None if self.attention_weights is None else self.attention_weights.cross_attention

    def __repr__(self) -> str:
        more = f", {len(self.alternatives)} alternatives" if self.alternatives else ""
        weights = "" if self.attention_weights is None else f", {self.attention_weights!r}"
        return f"Translation({self.text!r}, score={self.score:.4f}{more}{weights})"
