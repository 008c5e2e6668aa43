"""Sentences that lie one after the other in one row, without padding, and attention of each to its own alone.

Shapes: B sentences of M words in all, of queries or of keys; L words of the longest; H heads, d and v the
widths of a head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from seq2attn.nn.linear import autocast_dtype

HEAD_DIM_MULTIPLE, WIDEST = 8, 256
"""Of the one FlashAttention wants the width of a head, that of keys and of values alike, and at most the other."""


@dataclass(frozen=True)
class SequenceLayout:
    """Where the sentences of a row lie."""

    cu_seqlens: Tensor  # [B + 1] int32, as kernels want them: where each begins, and where the last one ends
    positions: Tensor  # [1, M] of each word in its sentence, from 0
    padded_index: Tensor  # [M]: where each word would stand among the B * L of padded sentences
    min_length: int  # words; known here, as to ask a device for them would stop it
    max_length: int

    @classmethod
    def from_lengths(cls, lengths: NDArray[np.int64]) -> Self:
        """Of sentences of so many words [B], in their order."""
        offsets = np.concatenate([[0], lengths.cumsum()])
        position = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        shortest, longest = int(lengths.min()), int(lengths.max())
        cells = np.repeat(np.arange(len(lengths)) * longest, lengths) + position
        at, place, cell = (torch.from_numpy(numbers) for numbers in (offsets.astype(np.int32), position[None], cells))
        return cls(at, place, cell, shortest, longest)

    def map_tensors(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """The same with `fn` applied to every tensor."""
        return replace(
            self,
            cu_seqlens=fn(self.cu_seqlens),
            positions=fn(self.positions),
            padded_index=fn(self.padded_index),
        )

    def pad(self, x: Tensor) -> Tensor:
        """[1, H, M, d] -> [B, H, L, d], zeros after each sentence"""
        sentences, (_, heads, _, dim) = len(self.cu_seqlens) - 1, x.shape
        padded = x.new_zeros(sentences * self.max_length, heads, dim)
        padded = padded.index_copy(0, self.padded_index, x[0].transpose(0, 1))
        return padded.unflatten(0, (sentences, self.max_length)).transpose(1, 2)

    def unpad(self, x: Tensor) -> Tensor:
        """[B, H, L, d] -> [1, H, M, d]"""
        return x.transpose(1, 2).flatten(0, 1).index_select(0, self.padded_index).transpose(0, 1)[None]

    def padding_mask(self) -> Tensor:
        """True on the words of padded sentences, bool [B, 1, 1, L]"""
        place = torch.arange(self.max_length, device=self.cu_seqlens.device)
        return (place < self.cu_seqlens.diff()[:, None])[:, None, None]

    def to_nested(self, words: Tensor) -> Tensor:
        """[M, H, d] -> PyTorch's nested [B, H, each sentence's words, d]"""
        made = torch.nested.nested_tensor_from_jagged(
            words.contiguous(), self.cu_seqlens, min_seqlen=self.min_length, max_seqlen=self.max_length
        )
        return made.transpose(1, 2)


def varlen_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    query_layout: SequenceLayout,
    key_layout: SequenceLayout,
    *,
    causal: bool = False,
    dropout: float = 0.0,
    padded: bool,
) -> Tensor:
    """softmax(q . k / sqrt(d)) v of each query and the keys of its own sentence (Vaswani et al. 2017, eq. 1).

    q [1, H, M, d], packed by `query_layout`; k and v [1, H, M', d or v], packed by `key_layout` -> [1, H, M, v].
    `causal`: keys and queries are of the same tokens, and each query attends up to its own position.

    `padded`: they are padded for the kernel, as a CPU has no quick one for sentences of many lengths. A GPU has
    FlashAttention's for 16 bits, and for others xFormers', by way of nested tensors, which take the host longer.
    """
    if padded:
        mask = None if causal else key_layout.padding_mask()
        context = F.scaled_dot_product_attention(
            query_layout.pad(q), key_layout.pad(k), key_layout.pad(v), mask, dropout, is_causal=causal
        )
        return query_layout.unpad(context)
    wide, scale = -(-max(q.size(-1), v.size(-1)) // HEAD_DIM_MULTIPLE) * HEAD_DIM_MULTIPLE, q.size(-1) ** -0.5
    kind = autocast_dtype(q.device) or q.dtype
    words = [laid_for_kernel(x.to(kind), wide) for x in (q, k, v)]
    if kind.itemsize == 2 and wide <= WIDEST:
        lengths = (
            query_layout.cu_seqlens,
            key_layout.cu_seqlens,
            query_layout.max_length,
            key_layout.max_length,
        )
        context, *_ = torch.ops.aten._flash_attention_forward(*words, *lengths, dropout, causal, False, scale=scale)
    else:
        laid = [layout.to_nested(x) for layout, x in zip((query_layout, key_layout, key_layout), words, strict=True)]
        nested = F.scaled_dot_product_attention(laid[0], laid[1], laid[2], None, dropout, is_causal=causal, scale=scale)
        context = nested.transpose(1, 2).values()
    return context.transpose(0, 1).unsqueeze(0)[..., : v.size(-1)]


def laid_for_kernel(x: Tensor, wide: int) -> Tensor:
    """[1, H, M, d] -> [M, H, wide], zeros beside what is narrower"""
    words = x.squeeze(0).transpose(0, 1)
    return words if x.size(-1) == wide else F.pad(words, (0, wide - x.size(-1)))
