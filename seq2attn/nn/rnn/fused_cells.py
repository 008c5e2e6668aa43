"""Cells of one recurrence, with what is computed for all steps at once and what step by step.

A cell is called with the index of the step, its input beside the precomputed gates ([n, I], or None) and the state
before it; it returns the state after it. Products may be in bfloat16, but h of a GRU and c of an LSTM are carried in
float32 at least: bfloat16 would lose changes of less than 1/256 at each step.

Shapes: R rows of all steps together, n rows of one step, I inputs, O outputs, D width, G gates (3D of a GRU, 4D
of an LSTM).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from seq2attn.nn.linear import PrepackedWeight, autocast_dtype
from seq2attn.nn.rnn.cells import RNNState, fused_gru_cell, fused_lstm_cell


class DeferredLinear:
    """y_t = base_t + x_t W' for the steps t of one recurrence; each step is called exactly once, in any order.

    PyTorch would compute the gradient of W once for each step, and add these up, which reads and writes a matrix T
    times. Here each step stores its input, and the gradient is one product of all of them.
    """

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


class FusedGRUCell:
    """A GRU with its reset gate after the product, so that input and state have a product each."""

    def __init__(self, gates: Tensor, weight: Tensor | None, hidden: Tensor, bias: Tensor, rows: Sequence[int]) -> None:
        """Precomputed gates [R, G]; weight [G, I] of the step inputs, None without any; hidden [G, D], bias [G]."""
        self._dtype = torch.promote_types(gates.dtype, torch.float32)
        self._inputs = gates.split(list(rows)) if weight is None else DeferredLinear(gates, weight, rows)
        self._hidden = DeferredLinear(bias.to(gates.dtype).expand_as(gates), hidden, rows)

    def __call__(self, step: int, x: Tensor | None, state: RNNState) -> RNNState:
        """[n, I], (h,) -> (h,)"""
        if isinstance(self._inputs, DeferredLinear):
            assert x is not None, "a cell with a weight for step inputs needs one at each step"
            inputs = self._inputs(step, x)
        else:
            inputs = self._inputs[step]
        (h,) = state
        return (fused_gru_cell(inputs, self._hidden(step, h), h.to(self._dtype)),)


class FusedLSTMCell:
    """An LSTM: one product of step input and state, concatenated. Arguments are those of `FusedGRUCell`."""

    def __init__(self, gates: Tensor, weight: Tensor | None, hidden: Tensor, bias: Tensor, rows: Sequence[int]) -> None:
        self._dtype = torch.promote_types(gates.dtype, torch.float32)
        weight = hidden if weight is None else torch.cat([weight, hidden], 1)
        self._gates = DeferredLinear(gates + bias.to(gates.dtype), weight, rows)

    def __call__(self, step: int, x: Tensor | None, state: RNNState) -> RNNState:
        """[n, I], (h, c) -> (h, c)"""
        h, c = state
        gates = self._gates(step, h if x is None else torch.cat([x, h], 1))
        return fused_lstm_cell(gates, c.to(self._dtype))


CellType = Literal["gru", "lstm"]
FUSED_CELLS: dict[CellType, type[FusedGRUCell | FusedLSTMCell]] = {"gru": FusedGRUCell, "lstm": FusedLSTMCell}
