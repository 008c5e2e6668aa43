"""Monotonic attention: the source is read from left to right, and never back.

Shapes: N rows, H heads, T queries, S keys.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import NonNegativeFloat
from torch import Tensor, nn

from seq2attn.attention.alignment import AlignmentFunction
from seq2attn.attention.base import QueryInfo
from seq2attn.config.base import Config


class MonotonicAlignment(AlignmentFunction):
    """From where it looked last it goes on word by word, and stops at each with p = sigmoid(score): Raffel et al. 2017.

    Training takes the expected weights (section 2.3), with noise on the scores so that p comes near 0 or 1. Afterwards
    it stops at the first word with p > 1/2, which is all that an online reader needs to know (algorithm 1). It always
    stops at the last word, so that each row adds up to 1 where the paper lets the rest be lost.
    """

    def __init__(self, noise: float, stop: float) -> None:
        super().__init__()
        self.sigmoid_noise = noise
        self.score_bias = nn.Parameter(torch.tensor(stop))  # r of eq. 16

    def initial_state(self, nowhere: Tensor) -> Tensor:
        """It stands at the first word: [N, H, S]."""
        return nowhere.index_fill(-1, torch.zeros(1, dtype=torch.long, device=nowhere.device), 1.0)

    def update_state(self, seen: Tensor, weights: Tensor) -> Tensor:
        """Where it looked last, [N, H, S]."""
        return weights.to(seen.dtype)

    def forward(self, scores: Tensor, mask: Tensor, asked: QueryInfo) -> Tensor:
        """scores [B, H, T, S], mask -> weights [B, H, T, S], each row after what its own `seen` says"""
        assert asked.state is not None, "monotonic attention is asked with where it looked last"
        scores = scores.to(asked.state.dtype) + self.score_bias
        last = mask & (mask.flip(-1).cumsum(-1).flip(-1) == 1)
        if not self.training:
            return hard_monotonic_alignment((scores > 0) | last, mask, asked.state)
        if self.sigmoid_noise:
            scores = scores + self.sigmoid_noise * torch.randn_like(scores)
        return expected_alignment(scores, mask, last, asked.state)


class MonotonicAlignmentConfig(Config):
    """Reads the source from left to right, and never back."""

    kind: Literal["monotonic"]
    sigmoid_noise: NonNegativeFloat = 1.0
    """Standard deviation of what training adds to the scores."""
    score_bias_init: float = -1.0
    """What is added to every score at first, before it is learnt: the lower, the longer the steps."""

    def build(self, query_dim: int) -> MonotonicAlignment:
        """For queries [*, query_dim]."""
        return MonotonicAlignment(self.sigmoid_noise, self.score_bias_init)


def expected_alignment(scores: Tensor, mask: Tensor, last: Tensor, seen: Tensor) -> Tensor:
    """weights_j = p_j * sum over k <= j of seen_k * the product over k <= l < j of (1 - p_l); all [B, H, T, S].

    The products are made of sums of logarithms, which neither underflow nor divide as eq. 13's closed form does.
    """
    stops = torch.sigmoid(scores).masked_fill(last, 1.0).masked_fill(~mask, 0.0)
    passes = F.logsigmoid(-scores).masked_fill(last | ~mask, 0.0).cumsum(-1)
    before = F.pad(passes[..., :-1], (1, 0))  # of all words before each
    ahead = torch.ones(scores.size(-1), scores.size(-1), dtype=torch.bool, device=scores.device).triu()
    reach = (before.unsqueeze(-2) - before.unsqueeze(-1)).masked_fill(~ahead, -torch.inf).exp()  # [..., k, j]
    return stops * (seen.unsqueeze(-2) @ reach).squeeze(-2)


def hard_monotonic_alignment(stops: Tensor, mask: Tensor, seen: Tensor) -> Tensor:
    """1 at the first word, from where it looked last on, at which it stops; all [B, H, T, S]."""
    here = stops & mask & (seen.cumsum(-1) > 0.5)
    first = here & (here.cumsum(-1) == 1)
    return first.to(seen.dtype)
