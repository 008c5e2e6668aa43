"""Monotonic attention: positions that never move to the left.

Shapes: N rows, H heads, T queries, S keys.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import NonNegativeFloat
from torch import Tensor, nn

from seq2attn.attention.align_functions import AlignmentConfig, AlignmentFunction
from seq2attn.attention.base import QueryInfo


class MonotonicAlignment(AlignmentFunction):
    """Monotonic attention (Raffel et al. 2017): from the last position to the right, stopping with p = sigmoid(score).

    Training uses the expected weights (section 2.3), with noise on the scores so that p gets close to 0 or 1. At
    inference it stops at the first token with p > 1/2 (algorithm 1). It always stops at the last token, so that each
    row sums to 1, where in the paper the rest is lost.
    """

    has_state = True
    is_discrete = True

    def __init__(self, sigmoid_noise: float, score_bias: float) -> None:
        super().__init__()
        self.sigmoid_noise = sigmoid_noise
        self.score_bias = nn.Parameter(torch.tensor(score_bias))  # r of eq. 16

    def initial_state(self, zeros: Tensor) -> Tensor:
        """One-hot [N, H, S]: the first token."""
        return zeros.index_fill(-1, torch.zeros(1, dtype=torch.long, device=zeros.device), 1.0)

    def update_state(self, state: Tensor, weights: Tensor) -> Tensor:
        """The last weights, [N, H, S]."""
        return weights.to(state.dtype)

    def forward(self, scores: Tensor, mask: Tensor, info: QueryInfo) -> Tensor:
        """scores [B, H, T, S], mask -> weights [B, H, T, S], given the last position in `info.alignment_state`"""
        assert info.alignment_state is not None, "monotonic attention needs the state of the steps before"
        scores = scores.to(info.alignment_state.dtype) + self.score_bias
        is_last = mask & (mask.flip(-1).cumsum(-1).flip(-1) == 1)
        if not self.training:
            candidates = ((scores > 0) | is_last) & mask & (info.alignment_state.cumsum(-1) > 0.5)
            is_first = candidates & (candidates.cumsum(-1) == 1)  # from the last position on
            return is_first.to(info.alignment_state.dtype)
        if self.sigmoid_noise:
            scores = scores + self.sigmoid_noise * torch.randn_like(scores)
        return expected_alignment(scores, mask, is_last, info.alignment_state)


class MonotonicAlignmentConfig(AlignmentConfig):
    """Monotonic attention: positions that never move to the left."""

    kind: Literal["monotonic"] = "monotonic"
    sigmoid_noise: NonNegativeFloat = 1.0
    """Standard deviation of the noise on the scores in training."""
    score_bias_init: float = -1.0
    """Initial value of the trained bias of the scores: lower values make longer steps."""

    def build(self, query_dim: int) -> MonotonicAlignment:
        """For queries [*, query_dim]."""
        return MonotonicAlignment(self.sigmoid_noise, self.score_bias_init)


def expected_alignment(scores: Tensor, mask: Tensor, is_last: Tensor, last: Tensor) -> Tensor:
    """weights_j = p_j * sum over k <= j of last_k * the product over k <= l < j of (1 - p_l); all [B, H, T, S].

    Products are computed as sums of logarithms, which do not underflow as the closed form of eq. 13 does.
    """
    stops = torch.sigmoid(scores).masked_fill(is_last, 1.0).masked_fill(~mask, 0.0)
    passes = F.logsigmoid(-scores).masked_fill(is_last | ~mask, 0.0).cumsum(-1)
    before = F.pad(passes[..., :-1], (1, 0))  # of the tokens before each
    ahead = torch.ones(scores.size(-1), scores.size(-1), dtype=torch.bool, device=scores.device).triu()
    passed = (before.unsqueeze(-2) - before.unsqueeze(-1)).masked_fill(~ahead, -torch.inf).exp()  # [..., k, j]
    return stops * (last.unsqueeze(-1) * passed).sum(-2)  # autocast would round a matrix product to bfloat16
