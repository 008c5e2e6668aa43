"""Sentences of a batch: with padding, or packed in one row without.

Shapes: B sentences of M tokens in all; L tokens of the longest; H heads, d the width of a head.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class SequenceLayout:
    """Positions of the sentences in a packed row."""

    cu_seqlens: Tensor  # [B + 1] int32: start of each sentence, and the end of the last one
    positions: Tensor  # [1, M]: of each token in its sentence, from 0
    padded_index: Tensor  # [M]: of each token among the B * L of padded sentences
    min_length: int  # in tokens; on the host, as reading them from a device would synchronize
    max_length: int

    @classmethod
    def from_lengths(cls, lengths: NDArray[np.int64]) -> Self:
        """Layout of sentences with these lengths [B], in their order."""
        offsets = np.concatenate([[0], lengths.cumsum()])
        position = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        min_length, max_length = int(lengths.min()), int(lengths.max())
        padded = np.repeat(np.arange(len(lengths)) * max_length, lengths) + position
        cu_seqlens, positions, index = (torch.from_numpy(x) for x in (offsets.astype(np.int32), position[None], padded))
        return cls(cu_seqlens, positions, index, min_length, max_length)

    def map_tensors(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """A layout with `fn` applied to every tensor."""
        cu_seqlens, positions, index = fn(self.cu_seqlens), fn(self.positions), fn(self.padded_index)
        return replace(self, cu_seqlens=cu_seqlens, positions=positions, padded_index=index)

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
        """True on the tokens of padded sentences, bool [B, 1, 1, L]"""
        position = torch.arange(self.max_length, device=self.cu_seqlens.device)
        return (position < self.cu_seqlens.diff()[:, None])[:, None, None]

    def to_nested(self, x: Tensor) -> Tensor:
        """[M, H, d] -> a nested tensor [B, H, tokens of each sentence, d]"""
        nested = torch.nested.nested_tensor_from_jagged(
            x.contiguous(), self.cu_seqlens, min_seqlen=self.min_length, max_seqlen=self.max_length
        )
        return nested.transpose(1, 2)


@dataclass(frozen=True)
class Sequences:
    """The tokens of a batch of sentences: padded, or packed in one row if there is a layout."""

    mask: Tensor  # [B, L] bool, True on tokens; [1, M] if packed
    lengths: Tensor | None = None  # [B] number of tokens, on the CPU wherever the mask is; None: not known there
    layout: SequenceLayout | None = None
