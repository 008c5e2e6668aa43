"""A linear layer for RNN loops: the forward pass runs step by step, the weight gradient is one product over all steps.

PyTorch computes the gradient of a weight once for each step that uses it, and adds these up: for T steps, T times the
memory traffic of a matrix. Here each step stores its input, and the gradient is one product of all of them.

Shapes: R rows of all steps together, I inputs, O outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from seq2attn.nn.linear import PrepackedWeight, autocast_dtype


class DeferredLinear:
    """y_t = base_t + x_t W' for the steps t of one recurrence; each step is called exactly once, in any order."""

    def __init__(self, base: Tensor, weight: Tensor, rows: Sequence[int]) -> None:
        """base [R, O]; weight [O, I]; rows: of each step"""
        self._dtype = autocast_dtype(base.device) or base.dtype
        self._weight = PrepackedWeight(weight.detach().to(self._dtype), max(rows), len(rows))
        self._inputs: list[Tensor | None] = [None] * len(rows)
        shared: Tensor = _WeightGrad.apply(base.to(self._dtype), weight, self._inputs)  # type: ignore[no-untyped-call]
        self._base = shared.split(list(rows))

    def __call__(self, step: int, x: Tensor) -> Tensor:
        """x [rows of the step, I] -> [rows of the step, O]"""
        x = x.to(self._dtype)
        self._inputs[step] = x.detach()  # with its graph it would be a reference cycle
        y: Tensor = _StepProduct.apply(self._base[step], x, self._weight)  # type: ignore[no-untyped-call]
        return y


class _StepProduct(torch.autograd.Function):
    """base + x W', with gradients of base and x; `_WeightGrad` computes that of W from that of base."""

    @staticmethod
    def forward(ctx: Any, base: Tensor, x: Tensor, weight: PrepackedWeight) -> Tensor:
        ctx.weight = weight
        return weight.forward(x, base)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor, Tensor, None]:
        return d_y, ctx.weight.backward(d_y), None


class _WeightGrad(torch.autograd.Function):
    """Identity of the base. All steps use its output, so its backward pass runs after theirs."""

    @staticmethod
    def forward(ctx: Any, base: Tensor, weight: Tensor, inputs: list[Tensor | None]) -> Tensor:
        ctx.inputs, ctx.dtype = inputs, weight.dtype
        return base.view_as(base)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_base: Tensor) -> tuple[Tensor, Tensor | None, None]:
        if not ctx.needs_input_grad[1]:
            return d_base, None, None
        return d_base, (d_base.t() @ torch.cat(ctx.inputs)).to(ctx.dtype), None
