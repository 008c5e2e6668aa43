"""Hard attention: one source word at a time, drawn by chance in training and the likeliest one afterwards.

Shapes: B sentences, H heads, T queries, S keys.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor

from seq2attn.attention.alignment import AlignmentFunction, masked_softmax
from seq2attn.attention.base import QueryInfo
from seq2attn.config.base import Config


class HardAlignment(AlignmentFunction):
    """Stochastic hard attention (Xu et al. 2015, section 4.1): s ~ softmax(scores); arg max at test time."""

    def forward(self, scores: Tensor, mask: Tensor, asked: QueryInfo) -> Tensor:
        """scores [B, H, T, S], mask -> weights [B, H, T, S], a single 1 in each row that may look anywhere"""
        return self.sample(scores, mask) if self.training else one_hot(scores, mask)

    @abstractmethod
    def sample(self, scores: Tensor, mask: Tensor) -> Tensor:
        """A sample of the softmax of the scores, as weights."""


class ReinforceAlignment(HardAlignment):
    """What is drawn has no gradient of its own; its log-probability learns from how well the target went.

    That is Williams 1992 and Xu et al. 2015, eq. 11 and 12, which `training.objective` adds to the loss. As in their
    section 4.1, a share of the queries is given the expected weights instead, so that the decoder learns early on
    that it is worth its while to look.
    """

    def __init__(self, weight: float, expected: float) -> None:
        super().__init__()
        self.weight, self.expected_share = weight, expected

    def sample(self, scores: Tensor, mask: Tensor) -> Tensor:
        """A sample without a gradient, or the expected weights with theirs."""
        sample = one_hot(scores.detach() + gumbel_noise(scores), mask)
        is_expected = torch.rand_like(scores[..., :1], requires_grad=False) < self.expected_share
        return torch.where(is_expected, masked_softmax(scores, mask), sample)

    def sample_log_prob(self, scores: Tensor, mask: Tensor, weights: Tensor) -> Tensor | None:
        """Weight times the log-probability [B, H, T] of what was drawn, 0 where nothing was; None after training."""
        if not self.training:
            return None
        lowest = torch.finfo(scores.dtype).min
        log_probs = (scores.masked_fill(~mask, lowest).log_softmax(-1) * weights).sum(-1)
        return self.weight * log_probs.masked_fill(weights.amax(-1) < 1, 0.0)


class ReinforceAlignmentConfig(Config):
    """One word, drawn; learnt by REINFORCE with a moving baseline."""

    kind: Literal["hard-reinforce"]
    weight: PositiveFloat = 0.1
    """How much what was drawn counts beside the words themselves (the paper's lambda_r)."""
    expected_share: float = Field(0.5, ge=0, lt=1)
    """Share of the queries for which training takes the expected weights instead of drawing one word."""

    def build(self, query_dim: int) -> ReinforceAlignment:
        """For queries [*, query_dim]."""
        return ReinforceAlignment(self.weight, self.expected_share)


class GumbelAlignment(HardAlignment):
    """What is drawn is given the gradient of a softmax of the same noise: straight-through (Jang et al. 2017, 2.2)."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def sample(self, scores: Tensor, mask: Tensor) -> Tensor:
        """A sample with the gradient of its relaxation."""
        noisy = scores + gumbel_noise(scores)
        soft = masked_softmax(noisy / self.temperature, mask)
        return one_hot(noisy.detach(), mask) + (soft - soft.detach())


class GumbelAlignmentConfig(Config):
    """One word, drawn; learnt through a softmax that stands in for it."""

    kind: Literal["hard-gumbel"]
    temperature: PositiveFloat = 1.0
    """Of the softmax whose gradient is taken: lower is nearer to what was drawn, and noisier."""

    def build(self, query_dim: int) -> GumbelAlignment:
        """For queries [*, query_dim]."""
        return GumbelAlignment(self.temperature)


def one_hot(scores: Tensor, mask: Tensor) -> Tensor:
    """1 at the highest score of each row, 0 elsewhere and where all is masked."""
    lowest = torch.finfo(scores.dtype).min
    best = scores.masked_fill(~mask, lowest).argmax(-1, keepdim=True)
    return torch.zeros_like(scores).scatter(-1, best, 1.0).masked_fill(~mask, 0.0)


def gumbel_noise(like: Tensor) -> Tensor:
    """Noise whose arg max, added to scores, is a sample of their softmax (Gumbel 1954)."""
    kind = torch.promote_types(like.dtype, torch.float32)
    noise = torch.empty_like(like, dtype=kind, requires_grad=False).exponential_()
    return -noise.clamp_min(torch.finfo(kind).tiny).log().to(like.dtype)
