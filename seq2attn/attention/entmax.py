"""Sparse alignment functions: 1.5-entmax and sparsemax, with weights of exactly zero.

Both are alpha-entmax (Peters et al. 2019, eq. 3 and 10):

    weights_i = [(alpha - 1) score_i - tau]_+ ** (1 / (alpha - 1))

with the threshold tau for which they sum to 1. alpha = 2 is sparsemax (Martins and Astudillo 2016).
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from seq2attn.attention.alignment import AlignmentFunction
from seq2attn.attention.base import QueryInfo
from seq2attn.config.base import Config


class EntmaxAlignment(AlignmentFunction):
    """alpha-entmax over all source tokens, for an alpha of 1.5 or 2."""

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, scores: Tensor, mask: Tensor, info: QueryInfo) -> Tensor:
        """scores [B, H, T, S], mask -> weights [B, H, T, S]"""
        return masked_entmax(scores, mask, self.alpha)


class EntmaxAlignmentConfig(Config):
    """Sparse alternatives to softmax: entmax15 sets some weights to zero, sparsemax most."""

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
        tau = _sparsemax_threshold(z) if alpha == 2.0 else _entmax15_threshold(z)
        weights = (z - tau).clamp_min(0.0) ** (1 / (alpha - 1))
        ctx.alpha = alpha
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, d_weights: Tensor) -> tuple[Tensor, None]:
        (weights,) = ctx.saved_tensors
        slope = torch.where(weights > 0, weights ** (2 - ctx.alpha), 0.0)
        mean = (d_weights * slope).sum(-1, keepdim=True) / slope.sum(-1, keepdim=True)
        return slope * (d_weights - mean), None


def _sparsemax_threshold(z: Tensor) -> Tensor:
    """z [..., S] -> tau [..., 1] (Martins and Astudillo 2016, algorithm 1)"""
    ordered, _ = z.sort(-1, descending=True)
    counts = torch.arange(1, z.size(-1) + 1, device=z.device, dtype=z.dtype)
    sums = ordered.clamp_min(-2.0).cumsum(-1)  # tokens 2 below the best have weight 0
    tau = (sums - 1) / counts
    support = (ordered > tau).sum(-1, keepdim=True).clamp_min(1)
    return tau.gather(-1, support - 1)


def _entmax15_threshold(z: Tensor) -> Tensor:
    """z [..., S] -> tau [..., 1] (Peters et al. 2019, algorithm 2)"""
    ordered, _ = z.sort(-1, descending=True)
    counts = torch.arange(1, z.size(-1) + 1, device=z.device, dtype=z.dtype)
    clipped = ordered.clamp_min(-2.0)  # tokens 2 below the best have weight 0
    mean, mean_square = clipped.cumsum(-1) / counts, (clipped**2).cumsum(-1) / counts
    spread = (1 - counts * (mean_square - mean**2)) / counts
    tau = mean - spread.clamp_min(0.0).sqrt()
    support = (tau <= ordered).sum(-1, keepdim=True).clamp_min(1)
    return tau.gather(-1, support - 1)
