"""Multi-head self-attention scores with relative or rotary positions.

Shapes: B sentences, H heads, G heads of keys, T queries, S keys, d the width of a head.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from seq2attn.attention.base import QueryInfo
from seq2attn.attention.scores import MultiHeadScore


class RelativePositionScore(MultiHeadScore):
    """(W q) . (U k + a) / sqrt(d), where a is learned for each distance from q to k: Shaw et al. 2018, section 3.2.

    The heads share the vectors. Distances beyond `max_distance` are clipped. Values have no vectors: in the paper's
    section 4.3 they add nothing to those of the keys.
    """

    def __init__(self, dim: int, heads: int, kv_heads: int | None, max_distance: int) -> None:
        super().__init__(dim, dim, heads, kv_heads)
        self.max_distance = max_distance
        self.relative_embedding = nn.Embedding(2 * max_distance + 1, dim // heads)

    def bias(self, q: Tensor, k: Tensor, info: QueryInfo) -> Tensor:
        """(W q) . a / sqrt(d), [B, H, T, S]: computed for all distances, then gathered for those of the keys"""
        by_distance = q @ self.relative_embedding.weight.T / math.sqrt(q.size(-1))  # [B, H, T, 2 * max_distance + 1]
        # In a shared KV cache the tokens of several hypotheses are mixed: each counts its own.
        key_position = torch.arange(k.size(-2), device=q.device) if info.mask is None else info.mask.cumsum(-1) - 1
        distance = key_position - info.position[:, None, :, None]
        row = distance.clamp(-self.max_distance, self.max_distance) + self.max_distance
        return by_distance.gather(-1, row.expand(-1, self.heads, -1, -1))


class RotaryScore(MultiHeadScore):
    """(R_t W q) . (R_s U k) / sqrt(d), where R_p rotates by angles that grow with p: Su et al. 2021, eq. 14 to 16.

    The product of R_t and R_s is R_(s - t). Keys are cached after the rotation.
    """

    def __init__(self, dim: int, heads: int, kv_heads: int | None = None) -> None:
        super().__init__(dim, dim, heads, kv_heads)
        if dim // heads % 2:
            raise ValueError(f"rotary positions need heads of an even width, not {dim // heads}")

    def project_query(self, x: Tensor, position: Tensor) -> Tensor:
        """[B, T, D] -> [B, H, T, d], rotated"""
        return apply_rotary(super().project_query(x, position), position)

    def project_key(self, x: Tensor, position: Tensor) -> Tensor:
        """[B, S, D] -> [B, G, S, d], rotated"""
        return apply_rotary(super().project_key(x, position), position)


def apply_rotary(x: Tensor, position: Tensor) -> Tensor:
    """x [B, H, T, d] at positions [B, T] -> [B, H, T, d], each pair i rotated by position * 10,000 ** (-2i / d).

    The two elements of a pair are d / 2 apart, as in GPT-NeoX and LLaMA; in the paper they are adjacent, which is the
    same up to a permutation of the rows of W.
    """
    dtype, half = torch.promote_types(x.dtype, torch.float32), x.size(-1) // 2
    exponent = torch.arange(half, device=x.device, dtype=dtype) * (-math.log(10_000.0) / half)
    angle = position[:, None, :, None] * exponent.exp()
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
