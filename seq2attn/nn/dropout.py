"""Dropout that costs little on a CPU."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Dropout(nn.Dropout):
    """Inverted dropout (Srivastava et al. 2014).

    PyTorch samples a float for each element on a CPU, which takes as long as a small matrix product. Here four elements
    share a random number of 64 bits, and the mask is stored in bytes. The probability is a multiple of 2 ** -16; the
    scale is exact for it.
    """

    def effective_p(self) -> float:
        """The probability in training, 0 otherwise; for kernels with their own dropout."""
        return self.p if self.training else 0.0

    def forward(self, x: Tensor) -> Tensor:
        """[...] -> [...]"""
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(x, self.p)
        output: Tensor = _Dropout.apply(x, self.p)  # type: ignore[no-untyped-call]
        return output


def dropout_mask(shape: torch.Size, p: float) -> tuple[Tensor, float]:
    """Mask [...] in bytes, 0 where dropped, and the scale of the others."""
    threshold = min(round(p * 2**16), 2**16 - 1)
    random = torch.empty(-(-shape.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    numbers = random.view(torch.int16)[: shape.numel()].view(shape)
    mask = (numbers >= threshold - 2**15).view(torch.uint8)  # bytes multiply faster than bools
    return mask, 2**16 / (2**16 - threshold)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        mask, ctx.scale = dropout_mask(x.shape, p)
        ctx.save_for_backward(mask)
        return (x * mask).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return (dy * mask).mul_(ctx.scale), None
