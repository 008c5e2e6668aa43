"""Alignments: from scores to weights over the source.

Shapes: B sentences, H heads, T queries, S keys. An alignment sees the scores [B, H, T, S], the mask (bool, True where
one may look, [B, 1, 1, S] or [B, 1, T, S]) and who asks: the queries as they came and their positions in the target.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from seq2attn.attention.base import AttentionComponent, QueryInfo
from seq2attn.config.base import Config


class AlignmentFunction(AttentionComponent, ABC):
    """Scores [B, H, T, S] to weights [B, H, T, S]."""

    @abstractmethod
    def forward(self, scores: Tensor, mask: Tensor, asked: QueryInfo) -> Tensor:
        """scores [B, H, T, S], mask -> weights [B, H, T, S], zero where the mask is False"""

    def sample_log_prob(self, scores: Tensor, mask: Tensor, weights: Tensor) -> Tensor | None:
        """The log-probability [B, H, T] of weights that were drawn by chance, times what it counts; None of most."""
        return None


class GlobalAlignment(AlignmentFunction):
    """A softmax over every source word (Bahdanau et al. 2015, eq. 6; Luong et al. 2015, eq. 7)."""

    def forward(self, scores: Tensor, mask: Tensor, asked: QueryInfo) -> Tensor:
        """scores [B, H, T, S], mask -> weights [B, H, T, S]"""
        return masked_softmax(scores, mask)


class GlobalAlignmentConfig(Config):
    """Every source word may be looked at."""

    kind: Literal["global"]

    def build(self, query_dim: int) -> GlobalAlignment:
        """For queries [*, query_dim]."""
        return GlobalAlignment()


class LocalMonotonicAlignment(AlignmentFunction):
    """local-m: looks at 2 * width + 1 words around p_t = t (Luong et al. 2015, section 3.2).

    A target longer than its source goes on looking at the last word.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.window = width

    def center(self, lengths: Tensor, asked: QueryInfo) -> Tensor:
        """lengths [B, 1] -> p_t [B, T], never past the last word."""
        return torch.minimum(asked.position, lengths - 1)

    def window_mask(self, scores: Tensor, mask: Tensor, asked: QueryInfo) -> tuple[Tensor, Tensor]:
        """How far each key is from p_t, and which keys the window holds, each [B, 1, T, S]."""
        centre = self.center(mask[:, 0].sum(-1), asked)[:, None, :, None]
        offset = torch.arange(scores.size(-1), device=scores.device) - centre
        return offset, mask & (offset.round().abs() <= self.window)

    def forward(self, scores: Tensor, mask: Tensor, asked: QueryInfo) -> Tensor:
        """scores [B, H, T, S], mask [B, 1, 1, S] -> weights [B, H, T, S]"""
        _, window = self.window_mask(scores, mask, asked)
        return masked_softmax(scores, window)


class LocalMonotonicAlignmentConfig(Config):
    """A window that moves one source word with each target word."""

    kind: Literal["local-m"]
    window: PositiveInt
    """D: how many words the window reaches to either side."""

    def build(self, query_dim: int) -> LocalMonotonicAlignment:
        """For queries [*, query_dim]."""
        return LocalMonotonicAlignment(self.window)


class LocalPredictiveAlignment(LocalMonotonicAlignment):
    """local-p: predicts p_t from the query, and favours words near it (Luong et al. 2015, eq. 9 and 10).

    The Gaussian has a standard deviation of D/2 and is not renormalised, as in the paper, so that the window's own
    centre gets a gradient through the weights; `renormalise` makes each row add up to 1 again. p_t runs over
    [0, S - 1] where the paper's eq. 9 says [0, S], and the window's words are counted from the one nearest to p_t, so
    that it always has 2 * width + 1 of them.
    """

    def __init__(self, query_dim: int, width: int, *, renormalise: bool = False) -> None:
        super().__init__(width)
        self.renormalize = renormalise
        self.position_predictor = nn.Sequential(
            nn.Linear(query_dim, query_dim, bias=False), nn.Tanh(), nn.Linear(query_dim, 1, bias=False)
        )

    def center(self, lengths: Tensor, asked: QueryInfo) -> Tensor:
        """lengths [B, 1] -> p_t [B, T]; bfloat16 could not tell far words apart."""
        where = self.position_predictor(asked.query).squeeze(-1)
        return (lengths - 1) * torch.sigmoid(where.to(torch.promote_types(where.dtype, torch.float32)))

    def forward(self, scores: Tensor, mask: Tensor, asked: QueryInfo) -> Tensor:
        """scores [B, H, T, S], mask [B, 1, 1, S] -> weights [B, H, T, S]"""
        offset, window = self.window_mask(scores, mask, asked)
        near = (-2 * (offset / self.window) ** 2).to(scores.dtype)
        if self.renormalize:  # the product of two exponentials is one of their sum
            return masked_softmax(scores + near, window)
        return masked_softmax(scores, window) * near.exp()


class LocalPredictiveAlignmentConfig(Config):
    """A window that the decoder moves where it wants."""

    kind: Literal["local-p"]
    window: PositiveInt
    """D: how many words the window reaches to either side; the Gaussian's standard deviation is D / 2."""
    renormalize: bool = False
    """Make the weights add up to 1 after the Gaussian."""

    def build(self, query_dim: int) -> LocalPredictiveAlignment:
        """For queries [*, query_dim]."""
        return LocalPredictiveAlignment(query_dim, self.window, renormalise=self.renormalize)


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last dimension; exactly zero where masked, all zero where all is masked."""
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(-1).masked_fill(~mask, 0.0)
