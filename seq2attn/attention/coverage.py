"""Coverage: a score that is told how much each source word has been looked at already.

Shapes: N rows, H heads, T queries, S keys, d the width in which a query and a key meet.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import PositiveFloat, PositiveInt, model_validator
from torch import Tensor, nn

from seq2attn.attention.base import QueryInfo
from seq2attn.attention.scores import AdditiveScore, check_heads
from seq2attn.config.base import Config
from seq2attn.nn.linear import Linear


class CoverageScore(AdditiveScore):
    """v . tanh(W q + U k + z C): the additive score with linguistic coverage (Tu et al. 2016, eq. 6, 8 and 9).

    C is the sum of all weights that a word has been given before, over its fertility fertile * sigmoid(u . k): how
    many target words it has a say in, at most `fertile`. Each word's score depends on the weights of the word before.
    """

    def __init__(self, query_dim: int, key_dim: int, dim: int, heads: int, fertile: float) -> None:
        super().__init__(query_dim, key_dim, dim, heads)
        self.max_fertility = fertile
        self.fertility = Linear(key_dim, heads, bias=False)
        self.z = nn.Parameter(torch.empty(heads, 1, 1, dim // heads))
        nn.init.uniform_(self.z, -0.1, 0.1)

    def initial_state(self, nowhere: Tensor) -> Tensor:
        """No word has been looked at: zeros [N, H, S]."""
        return nowhere

    def update_state(self, seen: Tensor, weights: Tensor) -> Tensor:
        """The weights of all words so far, added up, [N, H, S]."""
        return seen + weights

    def project_key(self, x: Tensor, position: Tensor) -> Tensor:
        """[B, S, Dk] -> [B, H, S, d + 1], of which the last is 1 / fertility"""
        fertility = self.max_fertility * torch.sigmoid(self.fertility(x))
        return torch.cat(
            [super().project_key(x, position), fertility.reciprocal().transpose(1, 2).unsqueeze(-1)], -1
        )

    def forward(self, q: Tensor, k: Tensor, asked: QueryInfo) -> Tensor:
        """[B, H, T, d], [B, H, S, d + 1] -> [B, H, T, S]"""
        assert asked.state is not None, "an attention with coverage is asked with what it has seen"
        covered = asked.state.to(q.dtype) * k[..., -1].unsqueeze(-2)  # [B, H, T, S]
        together = q.unsqueeze(-2) + k[..., :-1].unsqueeze(-3) + covered.unsqueeze(-1) * self.z
        return (torch.tanh(together) @ self.v.unsqueeze(-1)).squeeze(-1)


class CoverageScoreConfig(Config):
    """The additive score with coverage: it sees which source words are done with."""

    kind: Literal["coverage"]
    dim: PositiveInt = 256
    """Width of the hidden layer of the alignment model."""
    heads: PositiveInt = 1
    """How many alignments are made side by side."""
    max_fertility: PositiveFloat = 2.0
    """How many target words a source word may be worth at most."""

    @model_validator(mode="after")
    def _heads_divide(self) -> CoverageScoreConfig:
        return check_heads(self, self.heads, self.dim)

    def build(self, query_dim: int, key_dim: int) -> CoverageScore:
        """For queries [*, query_dim] and keys [*, key_dim]."""
        return CoverageScore(query_dim, key_dim, self.dim, self.heads, self.max_fertility)
