"""Attention weights of a source and a given translation, by one forced decoding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2attn.data.collate import batch_by_length, collate, collate_source
from seq2attn.models.seq2seq import IdPairs, Seq2Seq
from seq2attn.options import AttentionKind
from seq2attn.tokenizers.base import TokenizerPair
from seq2attn.tokenizers.tokenized_text import TokenizedText
from seq2attn.tokenizers.vocabulary import BOS, EOS

BATCH_TOKENS = 4096


@dataclass(frozen=True, repr=False)
class AttentionWeights:
    """A source, a translation, and the attention weights of every layer and head; both sides end with EOS."""

    source: TokenizedText
    target: TokenizedText
    target_input: TokenizedText  # of the decoder: BOS, then the target without EOS
    cross_attention: NDArray[np.float32] | None  # [layers, heads, target, source], by output token
    encoder_self_attention: NDArray[np.float32] | None  # [layers, heads, source, source]
    decoder_self_attention: NDArray[np.float32] | None  # [layers, heads, target, target input], by output token

    @classmethod
    @torch.no_grad()
    def compute(
        cls, model: Seq2Seq, tokenizers: TokenizerPair, source: Sequence[int], target: Sequence[int]
    ) -> AttentionWeights:
        """Attention weights of ids without EOS."""
        ((cross_attention, decoder_self_attention),) = _decoder_weights(model, [(source, target)], self_attention=True)
        source_text = TokenizedText.from_ids(tokenizers[0], [*source, EOS])
        target_text = TokenizedText.from_ids(tokenizers[1], [*target, EOS])
        weights = model.encoder_self_attention(*collate_source([source], model.device))
        encoder_self_attention = None if weights is None else weights[0].float().cpu().numpy()
        input_text = TokenizedText.from_ids(tokenizers[1], [BOS, *target])
        return cls(
            source_text, target_text, input_text, cross_attention, encoder_self_attention, decoder_self_attention
        )

    def by_kind(self, kind: AttentionKind) -> tuple[TokenizedText, TokenizedText, NDArray[np.float32] | None]:
        """Queries, keys and weights [layers, heads, queries, keys] of a kind of attention; None without it."""
        match kind:
            case "cross":
                return self.target, self.source, self.cross_attention
            case "encoder":
                return self.source, self.source, self.encoder_self_attention
            case "decoder":
                return self.target, self.target_input, self.decoder_self_attention

    def __repr__(self) -> str:
        weights = (self.cross_attention, self.encoder_self_attention, self.decoder_self_attention)
        cross, encoder, decoder = (None if array is None else list(array.shape) for array in weights)
        return f"AttentionWeights({cross=}, {encoder=}, {decoder=})"

    @classmethod
    def concat(cls, parts: Sequence[AttentionWeights]) -> AttentionWeights:
        """Concatenation of segments that were translated separately, with zeros between them."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            TokenizedText.concat([part.source for part in parts]),
            TokenizedText.concat([part.target for part in parts]),
            TokenizedText.concat([part.target_input for part in parts]),
            _block_diagonal([part.cross_attention for part in parts]),
            _block_diagonal([part.encoder_self_attention for part in parts]),
            _block_diagonal([part.decoder_self_attention for part in parts]),
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
def cross_attention_weights(model: Seq2Seq, pairs: IdPairs) -> list[NDArray[np.float32] | None]:
    """Cross-attention weights of pairs of ids without EOS, by forced decoding; None for a model without attention.

    Each is [layers, heads, target + EOS, source + EOS], all NaN if the log-probabilities of the first token are NaN.
    """
    output: list[NDArray[np.float32] | None] = [None] * len(pairs)
    for rows in batch_by_length([range(max(len(source), len(target), 1)) for source, target in pairs], BATCH_TOKENS):
        weights = _decoder_weights(model, [pairs[row] for row in rows], self_attention=False)
        for row, (cross_attention, _) in zip(rows, weights, strict=True):
            output[row] = cross_attention
    return output


def _decoder_weights(
    model: Seq2Seq, pairs: IdPairs, *, self_attention: bool
) -> list[tuple[NDArray[np.float32] | None, NDArray[np.float32] | None]]:
    """Cross-attention and self-attention of the decoder for each pair of a batch; None for what the model lacks."""
    batch = collate(pairs).to(model.device)
    decoded = model(batch.source, batch.sequences, batch.target, need_weights=True)
    is_nan = model.log_probs(decoded.hidden[:, 0]).isnan().any(1)

    def matrices(weights: Tensor | None, *sides: int) -> list[NDArray[np.float32] | None]:
        """Weights of each pair without padding; `sides`: 0 or 1, the side of rows and columns."""
        if weights is None:
            return [None] * len(pairs)
        weights[is_nan] = math.nan
        sizes = ([len(pair[side]) + 1 for side in sides] for pair in pairs)
        arrays = weights.float().cpu().numpy()
        return [array[:, :, :rows, :columns] for array, (rows, columns) in zip(arrays, sizes, strict=True)]

    weights = decoded.self_attention if self_attention else None
    return [*zip(matrices(decoded.cross_attention, 1, 0), matrices(weights, 1, 1), strict=True)]
