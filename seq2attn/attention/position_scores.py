"""Scores by position alone: location-based addressing.

Shapes: B sentences, H heads, T queries, S keys, P positions or distances with a separate score.
"""

from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from seq2attn.attention.base import QueryInfo, ScoreConfig
from seq2attn.attention.scores import ScoreFunction
from seq2attn.nn.kernels.linear import Linear


class PositionScore(ScoreFunction):
    """Base class: W q has P scores for each head, and keys, which are not compared, have width 0."""

    def __init__(self, query_dim: int, num_scores: int, heads: int) -> None:
        super().__init__(heads, query_proj=Linear(query_dim, heads * num_scores))

    def project_key(self, x: Tensor, position: Tensor) -> Tensor:
        """[B, S, Dk] -> [B, H, S, 0]"""
        return x[..., :0].unsqueeze(1).expand(-1, self.heads, -1, -1)


class LocationScore(PositionScore):
    """W q: a score for each source position (Luong et al. 2015, eq. 8, location).

    W has a row for each of the first P positions; later ones share the last row.
    """

    def forward(self, q: Tensor, k: Tensor, info: QueryInfo) -> Tensor:
        """[B, H, T, P], [B, H, S, 0] -> [B, H, T, S]"""
        index = torch.arange(k.size(-2), device=q.device).clamp_max(q.size(-1) - 1)
        return q.index_select(-1, index)


class LocationScoreConfig(ScoreConfig):
    """Location-based attention: absolute source positions, from the query alone."""

    kind: Literal["location"] = "location"
    max_positions: PositiveInt = 128
    """Number of source positions with a separate score."""
    heads: PositiveInt = 1
    """Number of heads."""

    def build(self, query_dim: int, key_dim: int) -> LocationScore:
        """For queries [*, query_dim]."""
        return LocationScore(query_dim, self.max_positions, self.heads)


class OffsetScore(PositionScore):
    """W q: a score for each distance s - t between source position s and target position t.

    As the location score of Luong et al. 2015, eq. 8, but relative to the target position, as in Shaw et al. 2018,
    section 3.2. W has a row for each distance up to `max_distance`, on either side; farther positions share the last.
    """

    def __init__(self, query_dim: int, max_distance: int, heads: int) -> None:
        super().__init__(query_dim, 2 * max_distance + 1, heads)
        self.max_distance = max_distance

    def forward(self, q: Tensor, k: Tensor, info: QueryInfo) -> Tensor:
        """[B, H, T, P], [B, H, S, 0] -> [B, H, T, S]"""
        distance = torch.arange(k.size(-2), device=q.device) - info.position[:, None, :, None]
        row = distance.clamp(-self.max_distance, self.max_distance) + self.max_distance
        return q.gather(-1, row.expand(-1, self.heads, -1, -1))


class OffsetScoreConfig(ScoreConfig):
    """Location-based attention: offsets from the target position, from the query alone."""

    kind: Literal["offset"] = "offset"
    max_distance: PositiveInt = 16
    """Maximum distance with a separate score, on either side."""
    heads: PositiveInt = 1
    """Number of heads."""

    def build(self, query_dim: int, key_dim: int) -> OffsetScore:
        """For queries [*, query_dim]."""
        return OffsetScore(query_dim, self.max_distance, self.heads)
