"""What hard attention learns from: how well the target went after what it drew (Williams 1992; Xu et al. 2015, 4.1).

Shapes: B sentences, T target tokens.
"""

from __future__ import annotations

from torch import Tensor

BASELINE_MOMENTUM = 0.9
"""How much of the baseline stays at each update (Xu et al. 2015, section 4.1)."""


def reinforce_loss(drawn: Tensor, log_probs: Tensor, mask: Tensor, baseline: float | None) -> Tensor:
    """A sum of value 0 whose gradient is minus that of the expected log-probability of the target.

    drawn [B, T]: the log-probability of what was drawn for each word, times what it counts; log_probs [B, T] of the
    target's words, without a gradient; mask [B, T] bool, False in padding. A sample has an effect on its token and
    on all that follow: its reward is how much better than the baseline, a log-probability per token, these went;
    without a baseline, than the mean of these tokens.
    """
    usual = log_probs.sum() / mask.sum() if baseline is None else baseline
    better = (log_probs - usual).masked_fill(~mask, 0.0)
    from_here = better.flip(1).cumsum(1).flip(1)
    surrogate = -(from_here * drawn).sum()
    return surrogate - surrogate.detach()


def update_baseline(baseline: float | None, mean: float) -> float:
    """The baseline after an update in which the tokens' log-probabilities had this mean."""
    return mean if baseline is None else BASELINE_MOMENTUM * baseline + (1 - BASELINE_MOMENTUM) * mean
