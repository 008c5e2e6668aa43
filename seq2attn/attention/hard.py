"""Hard attention: one source token per query, sampled in training and the most likely one at inference.

Shapes: B sentences, H heads, T queries, S keys.
"""

from abc import abstractmethod
from typing import Literal

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor

from seq2attn.attention.align_functions import AlignmentConfig, AlignmentFunction, masked_softmax
from seq2attn.attention.base import QueryInfo


class HardAlignment(AlignmentFunction):
    """Stochastic hard attention (Xu et al. 2015, section 4.1): s ~ softmax(scores); argmax at inference."""

    is_discrete = True

    def forward(self, scores: Tensor, mask: Tensor, info: QueryInfo) -> Tensor:
        """scores [B, H, T, S], mask -> weights [B, H, T, S], a single 1 in each row that is not masked"""
        return self.sample(scores, mask) if self.training else one_hot(scores, mask)

    def expected_weights(self, scores: Tensor, mask: Tensor, weights: Tensor) -> Tensor:
        """The softmax of the scores in training; at inference the weights, which are no samples."""
        return masked_softmax(scores, mask) if self.training else weights

    @abstractmethod
    def sample(self, scores: Tensor, mask: Tensor) -> Tensor:
        """A sample of the softmax of the scores, as weights."""


class ReinforceAlignment(HardAlignment):
    """Hard attention trained by REINFORCE (Williams 1992; Xu et al. 2015, eq. 11 and 12).

    Samples have no gradient; `training.loss` adds the term with their log-probabilities. As in their section 4.1, a
    share of the queries gets the expected weights instead, so that the decoder learns early to use the attention; the
    paper draws once for a sentence. Its entropy term is left out.
    """

    def __init__(self, weight: float, expected_share: float) -> None:
        super().__init__()
        self.weight, self.expected_share = weight, expected_share

    def sample(self, scores: Tensor, mask: Tensor) -> Tensor:
        """A sample without gradient, or the expected weights."""
        sample = one_hot(scores.detach() + gumbel_noise(scores), mask)
        is_expected = torch.rand_like(scores[..., :1], requires_grad=False) < self.expected_share
        return torch.where(is_expected, masked_softmax(scores, mask), sample)

    def sample_log_prob(self, scores: Tensor, mask: Tensor, weights: Tensor) -> Tensor | None:
        """Weighted log-probability [B, H, T] of the samples, 0 for expected weights; None at inference."""
        if not self.training:
            return None
        lowest = torch.finfo(scores.dtype).min
        log_probs = (scores.masked_fill(~mask, lowest).log_softmax(-1) * weights).sum(-1)
        return self.weight * log_probs.masked_fill(weights.amax(-1) < 1, 0.0)


class ReinforceAlignmentConfig(AlignmentConfig):
    """Hard attention, trained by REINFORCE with a moving baseline."""

    sampling = "whose sampled positions it does not train"

    kind: Literal["hard-reinforce"] = "hard-reinforce"
    weight: PositiveFloat = 0.1
    """Weight of the REINFORCE loss beside the cross-entropy (the paper's lambda_r)."""
    expected_share: float = Field(0.5, ge=0, lt=1)
    """Share of the queries that get the expected weights instead of a sample in training."""

    def build(self, query_dim: int) -> ReinforceAlignment:
        """For queries [*, query_dim]."""
        return ReinforceAlignment(self.weight, self.expected_share)


class GumbelAlignment(HardAlignment):
    """Hard attention trained by the straight-through Gumbel-softmax gradient (Jang et al. 2017, 2.2)."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def sample(self, scores: Tensor, mask: Tensor) -> Tensor:
        """A sample with the gradient of its relaxation."""
        noisy = scores + gumbel_noise(scores)
        soft = masked_softmax(noisy / self.temperature, mask)
        return one_hot(noisy.detach(), mask) + (soft - soft.detach())


class GumbelAlignmentConfig(AlignmentConfig):
    """Hard attention, trained by the straight-through Gumbel-softmax gradient."""

    sampling = "which samples other positions for each candidate"

    kind: Literal["hard-gumbel"] = "hard-gumbel"
    temperature: PositiveFloat = 1.0
    """Temperature of the relaxation: lower is closer to the sample, and has noisier gradients."""

    def build(self, query_dim: int) -> GumbelAlignment:
        """For queries [*, query_dim]."""
        return GumbelAlignment(self.temperature)


def one_hot(scores: Tensor, mask: Tensor) -> Tensor:
    """1 at the highest score of each row, 0 elsewhere and where all is masked."""
    lowest = torch.finfo(scores.dtype).min
    best = scores.masked_fill(~mask, lowest).argmax(-1, keepdim=True)
    return torch.zeros_like(scores).scatter(-1, best, 1.0).masked_fill(~mask, 0.0)


def gumbel_noise(like: Tensor) -> Tensor:
    """Gumbel noise: the argmax of scores + noise is a sample of their softmax (Gumbel 1954).

    In float32 at least: sums in bfloat16 are often equal, and argmax prefers the first of equals.
    """
    dtype = torch.promote_types(like.dtype, torch.float32)
    noise = torch.empty_like(like, dtype=dtype, requires_grad=False).exponential_()
    return -noise.clamp_min(torch.finfo(dtype).tiny).log()
