"""Dropout that costs little on a CPU."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

DRAWS_PER_INT64 = 4
"""Numbers of 16 bits in one draw of 64."""
PROBABILITY_STEPS = 2**16


class Dropout(nn.Dropout):
    """What training zeroes at random (Srivastava et al. 2014), the rest scaled up so that its mean stays.

    PyTorch draws a float for each number on a CPU, which takes as long as a small matrix product. Here four are decided
    by one draw of 64 bits, and one byte is kept of each. The probability is a multiple of 2 ** -16; the scale is exact
    for it.
    """

    def effective_p(self) -> float:
        """With which it zeroes now, in training or not, for a kernel that does so itself."""
        return self.p if self.training else 0.0

    def forward(self, x: Tensor) -> Tensor:
        """[...] -> [...]"""
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(x, self.p)
        dropped: Tensor = _Dropout.apply(x, self.p)  # type: ignore[no-untyped-call]
        return dropped


def dropout_mask(shape: torch.Size, p: float) -> tuple[Tensor, float]:
    """Ones for what is kept and zeros, bytes [...], and by how much what is kept grows."""
    out_of = min(round(p * PROBABILITY_STEPS), PROBABILITY_STEPS - 1)
    draws = torch.empty(-(-shape.numel() // DRAWS_PER_INT64), dtype=torch.int64).random_(-(2**63), None)
    numbers = draws.view(torch.int16)[: shape.numel()].view(shape)
    kept = (numbers >= out_of - PROBABILITY_STEPS // 2).view(torch.uint8)  # bytes multiply faster than truth values
    return kept, PROBABILITY_STEPS / (PROBABILITY_STEPS - out_of)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        kept, ctx.scale = dropout_mask(x.shape, p)
        ctx.save_for_backward(kept)
        return (x * kept).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return (dy * kept).mul_(ctx.scale), None
