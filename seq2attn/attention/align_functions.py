"""Alignment functions: scores to attention weights.

Shapes: B sentences, H heads, T queries, S keys. Masks are bool [B, 1, 1, S] or [B, 1, T, S], True where a query may
attend to a key.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from seq2attn.attention.base import AttentionComponent, QueryInfo
from seq2attn.config.base import Config


class AlignmentFunction(AttentionComponent, ABC):
    """Base class: scores [B, H, T, S] to weights [B, H, T, S]."""

    is_discrete: ClassVar[bool] = False
    """True if it selects tokens: rounding decides between nearly equal ones."""

    @abstractmethod
    def forward(self, scores: Tensor, mask: Tensor, info: QueryInfo) -> Tensor:
        """scores [B, H, T, S], mask -> weights [B, H, T, S], zero where the mask is False"""

    def sample_log_prob(self, scores: Tensor, mask: Tensor, weights: Tensor) -> Tensor | None:
        """Log-probability [B, H, T] of sampled weights, times the weight of their loss; None without sampling."""
        return None

    def expected_weights(self, scores: Tensor, mask: Tensor, weights: Tensor) -> Tensor:
        """Expectation [B, H, T, S] of sampled weights: what is returned and guided. The weights without sampling."""
        return weights


def has_discrete_alignment(model: nn.Module) -> bool:
    """True for a model with an attention that selects tokens."""
    return any(isinstance(part, AlignmentFunction) and part.is_discrete for part in model.modules())


class GlobalAlignment(AlignmentFunction):
    """Global alignment: softmax over all source tokens (Bahdanau et al. 2015, eq. 6; Luong et al. 2015, eq. 7)."""

    def forward(self, scores: Tensor, mask: Tensor, info: QueryInfo) -> Tensor:
        """scores [B, H, T, S], mask -> weights [B, H, T, S]"""
        return masked_softmax(scores, mask)


class AlignmentConfig(Config):
    """Base class of the configs of alignment functions."""

    is_softmax: ClassVar[bool] = False
    """Whether the weights are a softmax of the scores of all tokens."""
    sampling: ClassVar[str] = ""
    """Why candidates of minimum risk training cannot be scored with sampled positions, if there are any."""


class GlobalAlignmentConfig(AlignmentConfig):
    """Softmax over all source tokens."""

    is_softmax = True

    kind: Literal["global"] = "global"

    def build(self, query_dim: int) -> GlobalAlignment:
        """For queries [*, query_dim]."""
        return GlobalAlignment()


class LocalMonotonicAlignment(AlignmentFunction):
    """local-m: softmax over the 2 * window + 1 tokens around p_t = t (Luong et al. 2015, section 3.2).

    Target tokens beyond the length of the source attend to its last tokens.
    """

    def __init__(self, window: int) -> None:
        super().__init__()
        self.window = window

    def center(self, lengths: Tensor, info: QueryInfo) -> Tensor:
        """lengths [B, 1] -> p_t [B, T], at most the last position"""
        return torch.minimum(info.position, lengths - 1)

    def window_mask(self, scores: Tensor, mask: Tensor, info: QueryInfo) -> tuple[Tensor, Tensor]:
        """Distance of each key from p_t, and the mask of the window, each [B, 1, T, S]."""
        center = self.center(mask[:, 0].sum(-1), info)[:, None, :, None]
        nearest = center.round() if center.is_floating_point() else center  # ONNX rounds no integers
        keys = torch.arange(scores.size(-1), device=scores.device)
        return keys - center, mask & ((keys - nearest).abs() <= self.window)

    def forward(self, scores: Tensor, mask: Tensor, info: QueryInfo) -> Tensor:
        """scores [B, H, T, S], mask [B, 1, 1, S] -> weights [B, H, T, S]"""
        _, in_window = self.window_mask(scores, mask, info)
        return masked_softmax(scores, in_window)


class LocalMonotonicAlignmentConfig(AlignmentConfig):
    """A window that moves by one source token with each target token."""

    kind: Literal["local-m"] = "local-m"
    window: PositiveInt
    """D: number of tokens on either side of the center."""

    def build(self, query_dim: int) -> LocalMonotonicAlignment:
        """For queries [*, query_dim]."""
        return LocalMonotonicAlignment(self.window)


class LocalPredictiveAlignment(LocalMonotonicAlignment):
    """local-p: a window around a predicted p_t, with a Gaussian (Luong et al. 2015, eq. 9 and 10).

    The Gaussian has a standard deviation of D / 2, and its weights are not renormalized, as in the paper, so that the
    center gets a gradient through the weights; with `renormalize` each row sums to 1. p_t is in [0, S - 1], where eq. 9
    has [0, S]. The window is counted from the position nearest to p_t, so that it always has 2 * window + 1 positions.
    """

    is_discrete = True

    def __init__(self, query_dim: int, window: int, *, renormalize: bool = False) -> None:
        super().__init__(window)
        self.renormalize = renormalize
        self.position_predictor = nn.Sequential(
            nn.Linear(query_dim, query_dim, bias=False), nn.Tanh(), nn.Linear(query_dim, 1, bias=False)
        )

    def center(self, lengths: Tensor, info: QueryInfo) -> Tensor:
        """lengths [B, 1] -> p_t [B, T], in float32: bfloat16 has too few digits for positions"""
        logit = self.position_predictor(info.query).squeeze(-1)
        return (lengths - 1) * torch.sigmoid(logit.to(torch.promote_types(logit.dtype, torch.float32)))

    def forward(self, scores: Tensor, mask: Tensor, info: QueryInfo) -> Tensor:
        """scores [B, H, T, S], mask [B, 1, 1, S] -> weights [B, H, T, S]"""
        offset, in_window = self.window_mask(scores, mask, info)
        log_gaussian = (-2 * (offset / self.window) ** 2).to(scores.dtype)
        if self.renormalize:  # the product of two exponentials is one of their sum
            return masked_softmax(scores + log_gaussian, in_window)
        return masked_softmax(scores, in_window) * log_gaussian.exp()


class LocalPredictiveAlignmentConfig(AlignmentConfig):
    """A window around a position that is predicted from the query."""

    kind: Literal["local-p"] = "local-p"
    window: PositiveInt
    """D: number of tokens on either side of the center; the standard deviation of the Gaussian is D / 2."""
    renormalize: bool = False
    """Normalize the weights to a sum of 1 after the Gaussian."""

    def build(self, query_dim: int) -> LocalPredictiveAlignment:
        """For queries [*, query_dim]."""
        return LocalPredictiveAlignment(query_dim, self.window, renormalize=self.renormalize)


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last dimension; exactly zero where masked, all zero where all is masked."""
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(-1).masked_fill(~mask, 0.0)
