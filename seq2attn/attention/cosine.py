"""Score by cosine: content-based addressing (Graves et al. 2014).

Shapes: B sentences, H heads, T queries, S keys, d the common width of query and key.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from seq2attn.attention.base import QueryInfo
from seq2attn.attention.scores import ScoreFunction, check_heads_divide
from seq2attn.config.base import Config
from seq2attn.nn.linear import Linear


class CosineScore(ScoreFunction):
    """beta * cos(q, W k): content-based addressing with a trained sharpness per head (Graves et al. 2014, eq. 5 and 6).

    W projects keys to the width of the query, once per sentence.
    """

    def __init__(self, query_dim: int, key_dim: int, heads: int = 1) -> None:
        super().__init__(heads)
        check_heads_divide(query_dim, heads)
        self.key_proj = Linear(key_dim, query_dim, bias=False)
        self.sharpness = nn.Parameter(torch.full((heads, 1, 1), 10.0))

    def project_query(self, x: Tensor, position: Tensor) -> Tensor:
        """[B, T, Dq] -> [B, H, T, d], of length 1"""
        return F.normalize(super().project_query(x, position), dim=-1)

    def project_key(self, x: Tensor, position: Tensor) -> Tensor:
        """[B, S, Dk] -> [B, H, S, d], of length 1"""
        return F.normalize(super().project_key(self.key_proj(x), position), dim=-1)

    def forward(self, q: Tensor, k: Tensor, info: QueryInfo) -> Tensor:
        """[B, H, T, d], [B, H, S, d] -> [B, H, T, S]"""
        return self.sharpness.to(q.dtype) * (q @ k.transpose(-2, -1))


class CosineScoreConfig(Config):
    """Cosine of query and key (content-based addressing)."""

    kind: Literal["cosine"]
    heads: PositiveInt = 1
    """Number of heads; must divide the width of the query."""

    def build(self, query_dim: int, key_dim: int) -> CosineScore:
        """Raises ValueError when the heads do not divide `query_dim`."""
        return CosineScore(query_dim, key_dim, self.heads)
