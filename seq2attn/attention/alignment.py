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

from seq2attn.attention.base import Asked, Part
from seq2attn.config.base import Config


class Align(Part, ABC):
    """Scores [B, H, T, S] to weights [B, H, T, S]."""

    @abstractmethod
    def forward(self, scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
        """scores [B, H, T, S], mask -> weights [B, H, T, S], zero where the mask is False"""

    def drawn(self, scores: Tensor, mask: Tensor, weights: Tensor) -> Tensor | None:
        """The log-probability [B, H, T] of weights that were drawn by chance, times what it counts; None of most."""
        return None


class Global(Align):
    """A softmax over every source word (Bahdanau et al. 2015, eq. 6; Luong et al. 2015, eq. 7)."""

    def forward(self, scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
        """scores [B, H, T, S], mask -> weights [B, H, T, S]"""
        return masked_softmax(scores, mask)


class GlobalConfig(Config):
    """Every source word may be looked at."""

    kind: Literal["global"]

    def build(self, query_dim: int) -> Global:
        """For queries [*, query_dim]."""
        return Global()


class LocalMonotonic(Align):
    """local-m: looks at 2 * width + 1 words around p_t = t (Luong et al. 2015, section 3.2).

    A target longer than its source goes on looking at the last word.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def centre(self, lengths: Tensor, asked: Asked) -> Tensor:
        """lengths [B, 1] -> p_t [B, T], never past the last word."""
        return torch.minimum(asked.position, lengths - 1)

    def window(self, scores: Tensor, mask: Tensor, asked: Asked) -> tuple[Tensor, Tensor]:
        """How far each key is from p_t, and which keys the window holds, each [B, 1, T, S]."""
        centre = self.centre(mask[:, 0].sum(-1), asked)[:, None, :, None]
        offset = torch.arange(scores.size(-1), device=scores.device) - centre
        return offset, mask & (offset.round().abs() <= self.width)

    def forward(self, scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
        """scores [B, H, T, S], mask [B, 1, 1, S] -> weights [B, H, T, S]"""
        _, window = self.window(scores, mask, asked)
        return masked_softmax(scores, window)


class LocalMonotonicConfig(Config):
    """A window that moves one source word with each target word."""

    kind: Literal["local-m"]
    width: PositiveInt
    """D: how many words the window reaches to either side."""

    def build(self, query_dim: int) -> LocalMonotonic:
        """For queries [*, query_dim]."""
        return LocalMonotonic(self.width)


class LocalPredictive(LocalMonotonic):
    """local-p: predicts p_t from the query, and favours words near it (Luong et al. 2015, eq. 9 and 10).

    The Gaussian has a standard deviation of D/2 and is not renormalised, as in the paper, so that the window's own
    centre gets a gradient through the weights; `renormalise` makes each row add up to 1 again. p_t runs over
    [0, S - 1] where the paper's eq. 9 says [0, S], and the window's words are counted from the one nearest to p_t, so
    that it always has 2 * width + 1 of them.
    """

    def __init__(self, query_dim: int, width: int, *, renormalise: bool = False) -> None:
        super().__init__(width)
        self.renormalise = renormalise
        self.predict = nn.Sequential(
            nn.Linear(query_dim, query_dim, bias=False), nn.Tanh(), nn.Linear(query_dim, 1, bias=False)
        )

    def centre(self, lengths: Tensor, asked: Asked) -> Tensor:
        """lengths [B, 1] -> p_t [B, T]; bfloat16 could not tell far words apart."""
        where = self.predict(asked.query).squeeze(-1)
        return (lengths - 1) * torch.sigmoid(where.to(torch.promote_types(where.dtype, torch.float32)))

    def forward(self, scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
        """scores [B, H, T, S], mask [B, 1, 1, S] -> weights [B, H, T, S]"""
        offset, window = self.window(scores, mask, asked)
        near = (-2 * (offset / self.width) ** 2).to(scores.dtype)
        if self.renormalise:  # the product of two exponentials is one of their sum
            return masked_softmax(scores + near, window)
        return masked_softmax(scores, window) * near.exp()


class LocalPredictiveConfig(Config):
    """A window that the decoder moves where it wants."""

    kind: Literal["local-p"]
    width: PositiveInt
    """D: how many words the window reaches to either side; the Gaussian's standard deviation is D / 2."""
    renormalise: bool = False
    """Make the weights add up to 1 after the Gaussian."""

    def build(self, query_dim: int) -> LocalPredictive:
        """For queries [*, query_dim]."""
        return LocalPredictive(query_dim, self.width, renormalise=self.renormalise)


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last dimension; exactly zero where masked, all zero where all is masked."""
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(-1).masked_fill(~mask, 0.0)
