"""The translation of a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seq2attn.models.attention_weights import AttentionWeights
from seq2attn.visualization.attention import draw_page


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

    def _repr_html_(self) -> str:
        """The text, and for a notebook the page of its attention weights."""
        weights = self.attention_weights
        page = "" if weights is None else draw_page([weights])._repr_html_()
        return f"<p>{escape(self.text)}</p>{page}"

    def __repr__(self) -> str:
        more = f", {len(self.alternatives)} alternatives" if self.alternatives else ""
        weights = "" if self.attention_weights is None else f", {self.attention_weights!r}"
        return f"Translation({self.text!r}, score={self.score:.4f}{more}{weights})"


def translation_record(source: str, translation: Translation, log_probs: Sequence[Sequence[float]]) -> dict[str, Any]:
    """A translation and its alternatives for JSON; `log_probs` are those of the tokens of each of them."""
    best, *alternatives = [
        {"text": t.text, "score": t.score, "log_prob": t.log_prob, "tokens": t.tokens, "token_log_probs": tokens}
        for t, tokens in zip([translation, *translation.alternatives], log_probs, strict=True)
    ]
    record = {"source": source, **best, "source_tokens": translation.source_tokens}
    if (weights := translation.cross_attention) is not None:
        record["cross_attention"] = weights.tolist()  # [layers, heads, tokens + EOS, source tokens + EOS]
    if translation.segments:
        record["segments"] = translation.segments
    if translation.truncated:
        record["truncated"] = True
    return record | ({"alternatives": alternatives} if alternatives else {})
