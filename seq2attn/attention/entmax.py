"""Sparse alignment functions: 1.5-entmax and sparsemax, with weights of exactly zero.

Both are alpha-entmax (Peters et al. 2019, eq. 3 and 10):

    weights_i = [(alpha - 1) score_i - tau]_+ ** (1 / (alpha - 1))

with the threshold tau for which they sum to 1. alpha = 2 is sparsemax (Martins and Astudillo 2016).
"""

from typing import Any, Literal

import torch
from torch import Tensor

from seq2attn.attention.align_functions import AlignmentConfig, AlignmentFunction
from seq2attn.attention.base import QueryInfo


class EntmaxAlignment(AlignmentFunction):
    """alpha-entmax over all source tokens, for an alpha of 1.5 or 2."""

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, scores: Tensor, mask: Tensor, info: QueryInfo) -> Tensor:
        """scores [B, H, T, S], mask -> weights [B, H, T, S]"""
        return masked_entmax(scores, mask, self.alpha)


class EntmaxAlignmentConfig(AlignmentConfig):
    """Sparse alternatives to softmax, with weights of exactly zero: sparsemax has more of them than entmax15."""

    kind: Literal["sparsemax", "entmax15"]

    def build(self, query_dim: int) -> EntmaxAlignment:
        """For queries [*, query_dim]."""
        return EntmaxAlignment(2.0 if self.kind == "sparsemax" else 1.5)


def masked_entmax(scores: Tensor, mask: Tensor, alpha: float) -> Tensor:
    """alpha-entmax over the last dimension; exactly zero where masked, all zero where all is masked.

    In float32 at least: bfloat16 cannot count beyond 256.
    """
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    lowest = torch.finfo(scores.dtype).min / 4  # a quarter, so that the differences below do not overflow
    masked = scores.masked_fill(~mask, lowest)
    weights: Tensor = _Entmax.apply(masked, alpha)  # type: ignore[no-untyped-call]
    return weights.masked_fill(~mask, 0.0)


class _Entmax(torch.autograd.Function):
    """Exact, by sorting; its gradient is that of Peters et al. 2019, proposition 2."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, alpha: float) -> Tensor:
        z = (scores - scores.amax(-1, keepdim=True)) * (alpha - 1)
        weights = (z - _threshold(z, alpha)).clamp_min(0.0) ** (1 / (alpha - 1))
        ctx.alpha = alpha
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, d_weights: Tensor) -> tuple[Tensor, None]:
        (weights,) = ctx.saved_tensors
        slope = torch.where(weights > 0, weights ** (2 - ctx.alpha), 0.0)
        mean = (d_weights * slope).sum(-1, keepdim=True) / slope.sum(-1, keepdim=True)
        return slope * (d_weights - mean), None


def _threshold(z: Tensor, alpha: float) -> Tensor:
    """z [..., S] -> tau [..., 1] (Martins and Astudillo 2016, algorithm 1; Peters et al. 2019, algorithm 2)

    Of the k best tokens, for each k, tau is the mean less 1 / k, or less sqrt(1 / k - variance) for an alpha of 1.5.
    """
    ordered, _ = z.sort(-1, descending=True)
    clipped = ordered.clamp_min(-2.0)  # tokens 2 below the best have weight 0
    counts = torch.arange(1, z.size(-1) + 1, device=z.device, dtype=z.dtype)
    mean, distance = clipped.cumsum(-1) / counts, 1 / counts
    if alpha == 1.5:
        variance = (clipped**2).cumsum(-1) / counts - mean**2
        distance = (distance - variance).clamp_min(0.0).sqrt()
    tau = mean - distance
    support = (tau <= ordered).sum(-1, keepdim=True).clamp_min(1)
    return tau.gather(-1, support - 1)
