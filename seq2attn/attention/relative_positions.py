"""Multi-head scores of words among themselves that know how far one stands from the other.

Shapes: B sentences, H heads, G groups, T queries, S keys, d the width of a head.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from seq2attn.attention.base import QueryInfo
from seq2attn.attention.scores import MultiHeadScore


class RelativePositionScore(MultiHeadScore):
    """(W q) . (U k + a) / sqrt(d), where a is learned for each distance from q to k: Shaw et al. 2018, section 3.2.

    All heads share the vectors. Keys farther than `most` words away share the last one on their side. Values have no
    vectors: in the paper's section 4.3 they add nothing to those of the keys.
    """

    def __init__(self, dim: int, heads: int, groups: int | None, most: int) -> None:
        super().__init__(dim, dim, heads, groups)
        self.max_distance = most
        self.relative_embedding = nn.Embedding(2 * most + 1, dim // heads)

    def bias(self, q: Tensor, k: Tensor, asked: QueryInfo) -> Tensor:
        """(W q) . a / sqrt(d), [B, H, T, S]: first of all distances, then those at which the keys stand."""
        by_distance = q @ self.relative_embedding.weight.T / math.sqrt(q.size(-1))  # [B, H, T, 2 * most + 1]
        # Hypotheses that share what they have read stand among each other's words: each counts its own.
        place = torch.arange(k.size(-2), device=q.device) if asked.mask is None else asked.mask.cumsum(-1) - 1
        distance = place - asked.position[:, None, :, None]
        row = distance.clamp(-self.max_distance, self.max_distance) + self.max_distance
        return by_distance.gather(-1, row.expand(-1, self.heads, -1, -1))


class RotaryScore(MultiHeadScore):
    """(R_t W q) . (R_s U k) / sqrt(d), where R_p turns by angles that grow with p: Su et al. 2021, eq. 14 to 16.

    What is left of R_t and R_s in the product is R_(s - t). Keys are kept turned.
    """

    def __init__(self, dim: int, heads: int, groups: int | None = None) -> None:
        super().__init__(dim, dim, heads, groups)
        if dim // heads % 2:
            raise ValueError(
                f"rotary positions turn pairs; heads {dim // heads} wide have one without a partner"
            )

    def project_query(self, x: Tensor, position: Tensor) -> Tensor:
        """[B, T, D] -> [B, H, T, d], turned"""
        return apply_rotary(super().project_query(x, position), position)

    def project_key(self, x: Tensor, position: Tensor) -> Tensor:
        """[B, S, D] -> [B, G, S, d], turned"""
        return apply_rotary(super().project_key(x, position), position)


def apply_rotary(x: Tensor, position: Tensor) -> Tensor:
    """x [B, H, T, d] at positions [B, T] -> the same, each pair i of numbers turned by position * 10,000 ** (-2i / d).

    A pair stands half the width apart, as in GPT-NeoX and LLaMA; in the paper they are neighbours, which is the same
    but for the order of W's rows.
    """
    kind, half = torch.promote_types(x.dtype, torch.float32), x.size(-1) // 2
    exponent = torch.arange(half, device=x.device, dtype=kind) * (-math.log(10_000.0) / half)
    angle = position[:, None, :, None] * exponent.exp()
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
