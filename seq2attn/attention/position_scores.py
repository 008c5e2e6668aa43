"""Scores by position alone: location-based addressing.

Shapes: B sentences, H heads, T queries, S keys, d the width in which a query and a key meet.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from seq2attn.attention.base import QueryInfo
from seq2attn.attention.scores import ScoreFunction, split_heads
from seq2attn.config.base import Config
from seq2attn.nn.linear import Linear


class PositionScore(ScoreFunction):
    """A score that is blind to what stands at a source position: of the keys only their number counts."""

    def project_key(self, x: Tensor, position: Tensor) -> Tensor:
        """[B, S, Dk] -> [B, H, S, 0]"""
        return x[..., :0].unsqueeze(1).expand(-1, self.heads, -1, -1)


class LocationScore(PositionScore):
    """W q: a score for each source position (Luong et al. 2015, eq. 8, location).

    W has a row for each of the first `positions` source words; all later words share the last.
    """

    def __init__(self, query_dim: int, positions: int, heads: int = 1) -> None:
        super().__init__(heads)
        self.query_proj = Linear(query_dim, heads * positions)

    def project_query(self, x: Tensor, position: Tensor) -> Tensor:
        """[B, T, Dq] -> [B, H, T, positions]"""
        return split_heads(self.query_proj(x), self.heads)

    def forward(self, q: Tensor, k: Tensor, asked: QueryInfo) -> Tensor:
        """[B, H, T, positions], [B, H, S, 0] -> [B, H, T, S]"""
        place = torch.arange(k.size(-2), device=q.device).clamp_max(q.size(-1) - 1)
        return q.index_select(-1, place)


class LocationScoreConfig(Config):
    """Addressing by position: where to look is guessed from the query alone."""

    kind: Literal["location"]
    max_positions: PositiveInt = 128
    """How many source positions have a score of their own."""
    heads: PositiveInt = 1
    """How many alignments are made side by side."""

    def build(self, query_dim: int, key_dim: int) -> LocationScore:
        """For queries [*, query_dim]."""
        return LocationScore(query_dim, self.max_positions, self.heads)


class OffsetScore(PositionScore):
    """W q: a score for each distance s - t between source position s and target position t.

    Location in the manner of Luong et al. 2015, eq. 8, but counted from where the query stands, as relative positions
    are (Shaw et al. 2018, section 3.2). W has a row for each distance up to `reach`; all farther words share the last.
    """

    def __init__(self, query_dim: int, reach: int, heads: int = 1) -> None:
        super().__init__(heads)
        self.max_distance = reach
        self.query_proj = Linear(query_dim, heads * (2 * reach + 1))

    def project_query(self, x: Tensor, position: Tensor) -> Tensor:
        """[B, T, Dq] -> [B, H, T, 2 * reach + 1]"""
        return split_heads(self.query_proj(x), self.heads)

    def forward(self, q: Tensor, k: Tensor, asked: QueryInfo) -> Tensor:
        """[B, H, T, 2 * reach + 1], [B, H, S, 0] -> [B, H, T, S]"""
        distance = torch.arange(k.size(-2), device=q.device) - asked.position[:, None, :, None]
        row = distance.clamp(-self.max_distance, self.max_distance) + self.max_distance
        return q.gather(-1, row.expand(-1, self.heads, -1, -1))


class OffsetScoreConfig(Config):
    """Addressing by distance: how far to look to the left or right of one's own position."""

    kind: Literal["offset"]
    max_distance: PositiveInt = 16
    """How many words to either side have a score of their own."""
    heads: PositiveInt = 1
    """How many alignments are made side by side."""

    def build(self, query_dim: int, key_dim: int) -> OffsetScore:
        """For queries [*, query_dim]."""
        return OffsetScore(query_dim, self.max_distance, self.heads)
