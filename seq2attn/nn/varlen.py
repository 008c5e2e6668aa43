"""Sentences that lie one after the other in one row, without padding, and attention of each to its own alone.

Shapes: B sentences of M words in all, asked by queries or holding keys; L words of the longest; H heads, d and v the
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

MULTIPLE, WIDEST = 8, 256
"""Of the one FlashAttention wants the width of a head, that of keys and of values alike, and at most the other."""


@dataclass(frozen=True)
class Spans:
    """Where the sentences of a row lie."""

    offsets: Tensor  # [B + 1] int32, as kernels want them: where each begins, and where the last one ends
    position: Tensor  # [1, M] of each word in its sentence, from 0
    cells: Tensor  # [M]: where each word would stand among the B * L of padded sentences
    shortest: int  # words; known here, as to ask a device for them would stop it
    longest: int

    @classmethod
    def of(cls, lengths: NDArray[np.int64]) -> Self:
        """Of sentences of so many words [B], in their order."""
        offsets = np.concatenate([[0], lengths.cumsum()])
        position = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        shortest, longest = int(lengths.min()), int(lengths.max())
        cells = np.repeat(np.arange(len(lengths)) * longest, lengths) + position
        at, place, cell = (
            torch.from_numpy(numbers) for numbers in (offsets.astype(np.int32), position[None], cells)
        )
        return cls(at, place, cell, shortest, longest)

    def map_tensors(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """The same with `fn` applied to every tensor."""
        return replace(self, offsets=fn(self.offsets), position=fn(self.position), cells=fn(self.cells))

    def pad(self, x: Tensor) -> Tensor:
        """[1, H, M, d] -> [B, H, L, d], zeros after each sentence"""
        sentences, (_, heads, _, dim) = len(self.offsets) - 1, x.shape
        padded = x.new_zeros(sentences * self.longest, heads, dim)
        padded = padded.index_copy(0, self.cells, x[0].transpose(0, 1))
        return padded.unflatten(0, (sentences, self.longest)).transpose(1, 2)

    def unpad(self, x: Tensor) -> Tensor:
        """[B, H, L, d] -> [1, H, M, d]"""
        return x.transpose(1, 2).flatten(0, 1).index_select(0, self.cells).transpose(0, 1)[None]

    def mask(self) -> Tensor:
        """True on the words of padded sentences, bool [B, 1, 1, L]"""
        place = torch.arange(self.longest, device=self.offsets.device)
        return (place < self.offsets.diff()[:, None])[:, None, None]

    def jagged(self, words: Tensor) -> Tensor:
        """[M, H, d] -> PyTorch's nested [B, H, each sentence's words, d]"""
        made = torch.nested.nested_tensor_from_jagged(
            words.contiguous(), self.offsets, min_seqlen=self.shortest, max_seqlen=self.longest
        )
        return made.transpose(1, 2)


def attend_within(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    asking: Spans,
    asked: Spans,
    *,
    causal: bool = False,
    dropout: float = 0.0,
    padded: bool,
) -> Tensor:
    """softmax(q . k / sqrt(d)) v of each query and the keys of its own sentence (Vaswani et al. 2017, eq. 1).

    q [1, H, M, d] of sentences that lie as `asking` tells, k and v [1, H, M', d or v] of as many as `asked` tells ->
    [1, H, M, v]. `causal`: keys and queries are of the same words, and each looks at those up to its own.

    `padded`: they are padded for the kernel, as a CPU has no quick one for sentences of many lengths. A card has
    FlashAttention's for 16 bits, and for others xFormers', by way of nested tensors, which take the host longer.
    """
    if padded:
        mask = None if causal else asked.mask()
        context = F.scaled_dot_product_attention(
            asking.pad(q), asked.pad(k), asked.pad(v), mask, dropout, is_causal=causal
        )
        return asking.unpad(context)
    wide, scale = -(-max(q.size(-1), v.size(-1)) // MULTIPLE) * MULTIPLE, q.size(-1) ** -0.5
    kind = autocast_dtype(q.device) or q.dtype
    words = [laid_for_kernel(x.to(kind), wide) for x in (q, k, v)]
    if kind.itemsize == 2 and wide <= WIDEST:
        lengths = asking.offsets, asked.offsets, asking.longest, asked.longest
        context, *_ = torch.ops.aten._flash_attention_forward(
            *words, *lengths, dropout, causal, False, scale=scale
        )
    else:
        laid = [spans.jagged(x) for spans, x in zip((asking, asked, asked), words, strict=True)]
        nested = F.scaled_dot_product_attention(
            laid[0], laid[1], laid[2], None, dropout, is_causal=causal, scale=scale
        )
        context = nested.transpose(1, 2).values()
    return context.transpose(0, 1).unsqueeze(0)[..., : v.size(-1)]


def laid_for_kernel(x: Tensor, wide: int) -> Tensor:
    """[1, H, M, d] -> [M, H, wide], zeros beside what is narrower"""
    words = x.squeeze(0).transpose(0, 1)
    return words if x.size(-1) == wide else F.pad(words, (0, wide - x.size(-1)))
