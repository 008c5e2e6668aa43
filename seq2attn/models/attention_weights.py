"""Attention weights of a source and a given translation, by one forced decoding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from seq2attn.data.collate import batch_by_length, collate, collate_source
from seq2attn.models import Seq2Seq
from seq2attn.tokenizers.base import TokenizerPair
from seq2attn.tokenizers.tokenized_text import TokenizedText
from seq2attn.tokenizers.vocabulary import EOS


@dataclass(frozen=True, repr=False)
class AttentionWeights:
    """A source, a translation, and the attention weights of every layer and head; both sides end with EOS."""

    source: TokenizedText
    target: TokenizedText
    cross_attention: NDArray[np.float32] | None  # [layers, heads, target, source], by output token
    encoder_self_attention: NDArray[np.float32] | None  # [layers, heads, source, source]

    @classmethod
    @torch.no_grad()
    def compute(
        cls, model: Seq2Seq, tokenizers: TokenizerPair, source: Sequence[int], target: Sequence[int]
    ) -> AttentionWeights:
        """Attention weights of ids without EOS."""
        (cross_attention,) = cross_attention_weights(model, [(source, target)])
        source_text = TokenizedText.from_ids(tokenizers[0], [*source, EOS])
        target_text = TokenizedText.from_ids(tokenizers[1], [*target, EOS])
        weights = model.encoder_self_attention(*collate_source([source], model.device))
        encoder_self_attention = None if weights is None else weights[0].float().cpu().numpy()
        return cls(source_text, target_text, cross_attention, encoder_self_attention)

    def __repr__(self) -> str:
        weights = (self.cross_attention, self.encoder_self_attention)
        cross, encoder = (None if array is None else list(array.shape) for array in weights)
        return f"AttentionWeights({cross=}, {encoder=})"

    @classmethod
    def concat(cls, parts: Sequence[AttentionWeights]) -> AttentionWeights:
        """Concatenation of segments that were translated separately, with zeros between them."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            TokenizedText.concat([part.source for part in parts]),
            TokenizedText.concat([part.target for part in parts]),
            _block_diagonal([part.cross_attention for part in parts]),
            _block_diagonal([part.encoder_self_attention for part in parts]),
        )


def _block_diagonal(blocks: Sequence[NDArray[np.float32] | None]) -> NDArray[np.float32] | None:
    """[layers, heads, T, S] of each -> [layers, heads, sum of T, sum of S] with zeros between them"""
    arrays = [block for block in blocks if block is not None]
    if len(arrays) < len(blocks):
        return None
    rows, columns = (np.cumsum([0, *(array.shape[axis] for array in arrays)]) for axis in (2, 3))
    diagonal = np.zeros((*arrays[0].shape[:2], rows[-1], columns[-1]), dtype=np.float32)
    for number, array in enumerate(arrays):
        diagonal[:, :, rows[number] : rows[number + 1], columns[number] : columns[number + 1]] = array
    return diagonal


@torch.no_grad()
def cross_attention_weights(
    model: Seq2Seq, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], *, budget: int = 4096
) -> list[NDArray[np.float32] | None]:
    """Cross-attention weights of pairs of ids without EOS, by forced decoding; None for a model without attention.

    Each is [layers, heads, target + EOS, source + EOS], all NaN if the log-probabilities of the first token are NaN. A
    batch has at most `budget` tokens.
    """
    output: list[NDArray[np.float32] | None] = [None] * len(pairs)
    for rows in batch_by_length([range(max(len(source), len(target), 1)) for source, target in pairs], budget):
        batch = collate([pairs[row] for row in rows]).to(model.device)
        decoded = model(batch.source, batch.sequences, batch.target, need_weights=True)
        if decoded.cross_attention is not None:
            weights = decoded.cross_attention
            weights[model.log_probs(decoded.hidden[:, 0]).isnan().any(1)] = math.nan
            for row, matrix in zip(rows, weights.float().cpu().numpy(), strict=True):
                source, target = pairs[row]
                output[row] = matrix[:, :, : len(target) + 1, : len(source) + 1]
    return output
