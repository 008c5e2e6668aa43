"""Scores that look at what stands somewhere by its direction alone, or at where it stands alone.

Shapes: B sentences, H heads, T queries, S keys, d the width in which a query and a key meet.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from seq2attn.attention.scores import Score, split_heads
from seq2attn.config.base import Config


class Cosine(Score):
    """beta * cos(q, W k): content addressing with a learned sharpness for each head (Graves et al. 2014, eq. 5 and 6).

    W brings keys to the width of the query, and is paid once a sentence.
    """

    def __init__(self, query_dim: int, key_dim: int, heads: int = 1) -> None:
        super().__init__(heads)
        self.w_key = nn.Linear(key_dim, query_dim, bias=False)
        self.sharpness = nn.Parameter(torch.full((heads, 1, 1), 10.0))

    def query(self, x: Tensor) -> Tensor:
        """[B, T, Dq] -> [B, H, T, d], of length 1"""
        return F.normalize(super().query(x), dim=-1)

    def key(self, x: Tensor) -> Tensor:
        """[B, S, Dk] -> [B, H, S, d], of length 1"""
        return F.normalize(super().key(self.w_key(x)), dim=-1)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """[B, H, T, d], [B, H, S, d] -> [B, H, T, S]"""
        return self.sharpness.to(q.dtype) * (q @ k.transpose(-2, -1))


class CosineConfig(Config):
    """Content addressing: the angle between query and key."""

    kind: Literal["cosine"]
    heads: PositiveInt = 1
    """How many alignments are made side by side; they must divide the width of the query."""

    def build(self, query_dim: int, key_dim: int) -> Cosine:
        """Raises ValueError when the heads do not divide `query_dim`."""
        if query_dim % self.heads:
            raise ValueError(f"{self.heads} heads do not divide a query of width {query_dim}")
        return Cosine(query_dim, key_dim, self.heads)


class Location(Score):
    """W q: a score for each source position, blind to what stands there (Luong et al. 2015, eq. 8, location).

    W has a row for each of the first `positions` source words; all later words share the last.
    """

    def __init__(self, query_dim: int, positions: int, heads: int = 1) -> None:
        super().__init__(heads)
        self.w_query = nn.Linear(query_dim, heads * positions)

    def query(self, x: Tensor) -> Tensor:
        """[B, T, Dq] -> [B, H, T, positions]"""
        return split_heads(self.w_query(x), self.heads)

    def key(self, x: Tensor) -> Tensor:
        """[B, S, Dk] -> [B, H, S, 0]: only how many there are counts"""
        return x[..., :0].unsqueeze(1).expand(-1, self.heads, -1, -1)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """[B, H, T, positions], [B, H, S, 0] -> [B, H, T, S]"""
        position = torch.arange(k.size(-2), device=q.device).clamp_max(q.size(-1) - 1)
        return q.index_select(-1, position)


class LocationConfig(Config):
    """Addressing by position: where to look is guessed from the query alone."""

    kind: Literal["location"]
    positions: PositiveInt = 128
    """How many source positions have a score of their own."""
    heads: PositiveInt = 1
    """How many alignments are made side by side."""

    def build(self, query_dim: int, key_dim: int) -> Location:
        """For queries [*, query_dim]."""
        return Location(query_dim, self.positions, self.heads)
