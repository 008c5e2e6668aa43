"""Additive score with coverage: the accumulated attention weights of each source token.

Shapes: N rows, H heads, T queries, S keys, d the common width of query and key.
"""

from typing import Literal

import torch
from pydantic import PositiveFloat
from torch import Tensor, nn

from seq2attn.attention.base import QueryInfo
from seq2attn.attention.scores import AdditiveScore, HiddenLayerScoreConfig
from seq2attn.nn.kernels.linear import Linear

MIN_FERTILITY = 1e-6
"""Minimum fertility: sigmoid can round to 0, and 0 / 0 is NaN."""


class CoverageScore(AdditiveScore):
    """v . tanh(W q + U k + z C): the additive score with linguistic coverage (Tu et al. 2016, eq. 6, 8 and 9).

    C is the sum of the previous weights of a source token, divided by its fertility max_fertility * sigmoid(u . k), the
    expected number of target tokens that it aligns to. The scores of a target token depend on the weights before it.
    """

    has_state = True

    def __init__(self, query_dim: int, key_dim: int, dim: int, heads: int, max_fertility: float) -> None:
        super().__init__(query_dim, key_dim, dim, heads)
        self.max_fertility = max_fertility
        self.fertility = Linear(key_dim, heads, bias=False)
        self.z = nn.Parameter(torch.empty(heads, 1, 1, dim // heads))
        nn.init.uniform_(self.z, -0.1, 0.1)

    def initial_state(self, zeros: Tensor) -> Tensor:
        """Zeros [N, H, S]: nothing is covered."""
        return zeros

    def update_state(self, state: Tensor, weights: Tensor) -> Tensor:
        """Sum of the weights so far, [N, H, S]."""
        return state + weights

    def project_key(self, x: Tensor, position: Tensor) -> Tensor:
        """[B, S, Dk] -> [B, H, S, d + 1], of which the last is 1 / fertility"""
        fertility = (self.max_fertility * torch.sigmoid(self.fertility(x))).clamp_min(MIN_FERTILITY)
        return torch.cat([super().project_key(x, position), fertility.reciprocal().transpose(1, 2).unsqueeze(-1)], -1)

    def forward(self, q: Tensor, k: Tensor, info: QueryInfo) -> Tensor:
        """[B, H, T, d], [B, H, S, d + 1] -> [B, H, T, S]"""
        assert info.score_state is not None, "coverage needs the state after the previous token"
        dtype = torch.promote_types(q.dtype, torch.float32)
        q, k = q.to(dtype), k.to(dtype)
        coverage = info.score_state.to(dtype) * k[..., -1].unsqueeze(-2)  # [B, H, T, S]
        hidden = q.unsqueeze(-2) + k[..., :-1].unsqueeze(-3) + coverage.unsqueeze(-1) * self.z
        return (torch.tanh(hidden) * self.v.unsqueeze(-2)).sum(-1)  # autocast would round a matrix product to bfloat16


class CoverageScoreConfig(HiddenLayerScoreConfig):
    """Additive score with coverage."""

    kind: Literal["coverage"] = "coverage"
    max_fertility: PositiveFloat = 2.0
    """Maximum fertility: number of target tokens that one source token aligns to."""

    def build(self, query_dim: int, key_dim: int) -> CoverageScore:
        """For queries [*, query_dim] and keys [*, key_dim]."""
        return CoverageScore(query_dim, key_dim, self.dim, self.heads, self.max_fertility)
