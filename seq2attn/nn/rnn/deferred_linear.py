"""A linear layer that is asked step by step, and whose weights are given their gradient after all of the steps.

PyTorch makes a product of its own for the gradient of a weight at every step at which it was used, and adds it to
those of the other steps: for T steps, T times the memory traffic of a matrix. Here each step leaves what it was given,
and the gradient is one product of all steps.

Shapes: R rows of all steps together, I what a step is given, O what it makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from seq2attn.nn.linear import PrepackedWeight, autocast_dtype


class DeferredLinear:
    """y_t = base_t + x_t W', for the steps t of one recurrence, each of which is asked exactly once, in any order."""

    def __init__(self, base: Tensor, weight: Tensor, rows: Sequence[int]) -> None:
        """base [R, O], of `rows` rows a step; weight [O, I]"""
        kind = autocast_dtype(base.device) or base.dtype
        self._weight = PrepackedWeight(weight.detach().to(kind), max(rows), len(rows))
        self._kind = kind
        self._given: list[Tensor | None] = [None] * len(rows)
        gathered: Tensor = _GatherWeightGrad.apply(base.to(kind), weight, self._given)  # type: ignore[no-untyped-call]
        self._base = gathered.split(list(rows))

    def __call__(self, step: int, x: Tensor) -> Tensor:
        """x [rows of the step, I] -> [rows of the step, O]"""
        x = x.to(self._kind)
        self._given[step] = x.detach()  # with its graph it would keep itself alive
        made: Tensor = _StepProduct.apply(self._base[step], x, self._weight)  # type: ignore[no-untyped-call]
        return made


class _StepProduct(torch.autograd.Function):
    """base + x W' with gradients for base and x; that of base is what `_GatherWeightGrad` makes W's of."""

    @staticmethod
    def forward(ctx: Any, base: Tensor, x: Tensor, weight: PrepackedWeight) -> Tensor:
        ctx.weight = weight
        return weight.forward(x, base)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_made: Tensor) -> tuple[Tensor, Tensor, None]:
        return d_made, ctx.weight.backward(d_made), None


class _GatherWeightGrad(torch.autograd.Function):
    """The base itself. All steps were taken from it, so backwards they have all been when it is reached."""

    @staticmethod
    def forward(ctx: Any, base: Tensor, weight: Tensor, given: list[Tensor | None]) -> Tensor:
        ctx.given, ctx.kind = given, weight.dtype
        return base.view_as(base)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_base: Tensor) -> tuple[Tensor, Tensor | None, None]:
        if not ctx.needs_input_grad[1]:
            return d_base, None, None
        return d_base, (d_base.t() @ torch.cat(ctx.given)).to(ctx.kind), None
