"""REINFORCE for hard attention, with a moving-average baseline (Williams 1992; Xu et al. 2015, section 4.1).

Shapes: B sentences, T target tokens.
"""

from __future__ import annotations

from torch import Tensor

BASELINE_MOMENTUM = 0.9
"""Momentum of the baseline (Xu et al. 2015, section 4.1)."""


def reinforce_loss(sample_log_prob: Tensor, log_probs: Tensor, mask: Tensor, baseline: float | None) -> Tensor:
    """A term of value 0 whose gradient is minus that of the expected log-probability of the target.

    sample_log_prob [B, T]: log-probability of the sampled positions, weighted; log_probs [B, T] of the target tokens,
    without gradient; mask [B, T] bool, False in padding. The reward of a sample is the sum of the log-probabilities of
    its token and all later ones, minus the baseline for each; without a baseline, minus the mean of these tokens.
    """
    usual = log_probs.sum() / mask.sum() if baseline is None else baseline
    advantage = (log_probs - usual).masked_fill(~mask, 0.0)
    rewards = advantage.flip(1).cumsum(1).flip(1)
    surrogate = -(rewards * sample_log_prob).sum()
    return surrogate - surrogate.detach()


def update_baseline(baseline: float | None, mean: float) -> float:
    """The baseline after an update with this mean log-probability per token."""
    return mean if baseline is None else BASELINE_MOMENTUM * baseline + (1 - BASELINE_MOMENTUM) * mean
