"""Cells of GRU and LSTM: one step from its gates on, by its formula, and fused for all steps in training.

A fused step makes few passes over memory and keeps only what the backward pass needs. What does not depend on the state
is computed for all steps at once. Products may be in bfloat16, but h of a GRU and c of an LSTM are carried in float32
at least: bfloat16 would lose changes of less than 1/256 at each step.

Shapes: N rows, D width, R rows of all steps together, n rows of one step, I inputs, O outputs, G gates: 3D of a GRU
(reset, update, new) or 4D of an LSTM (input, forget, new, output).
"""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from seq2attn.nn.kernels.linear import PrepackedWeight
from seq2attn.nn.precision import autocast_dtype

RNNState = tuple[Tensor, ...]
"""(h,) of a GRU or (h, c) of an LSTM, each [N, D]"""

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
tanh_backward = torch.ops.aten.tanh_backward.grad_input


def gru_cell(inputs: Tensor, hidden: Tensor, state: RNNState) -> RNNState:
    """Cho et al. 2014, eq. 5-8, with the reset gate after the product, as in cuDNN: gates of input and state -> (h,)"""
    (h,) = state
    reset_update_in, new_in = inputs.split([2 * h.size(-1), h.size(-1)], -1)
    reset_update_hidden, new_hidden = hidden.split([2 * h.size(-1), h.size(-1)], -1)
    reset, update = torch.sigmoid(reset_update_in + reset_update_hidden).chunk(2, -1)
    new = torch.tanh(torch.addcmul(new_in, reset, new_hidden))
    return (torch.lerp(new, h, update),)


def lstm_cell(inputs: Tensor, hidden: Tensor, state: RNNState) -> RNNState:
    """Hochreiter and Schmidhuber 1997 with forget gates (Gers et al. 2000): gates of input and state -> (h, c)"""
    i, f, g, o = (inputs + hidden).chunk(4, -1)
    c = torch.addcmul(torch.sigmoid(f) * state[1], torch.sigmoid(i), torch.tanh(g))
    return torch.sigmoid(o) * torch.tanh(c), c


class _GRU(torch.autograd.Function):
    """`gru_cell`, fused."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, hidden: Tensor, h: Tensor) -> Tensor:
        split = 2 * h.size(1)
        reset_update = torch.add(inputs[:, :split], hidden[:, :split]).sigmoid_()
        reset, update = reset_update.chunk(2, 1)
        new = torch.addcmul(inputs[:, split:], reset, hidden[:, split:]).tanh_()
        ctx.save_for_backward(hidden, h, reset_update, new)
        if h.dtype != new.dtype:  # `lerp` supports one dtype only
            return (h - new).mul_(update).add_(new)
        return torch.lerp(new, h, update)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_next: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden, h, reset_update, new = ctx.saved_tensors
        split = 2 * h.size(1)
        reset, update = reset_update.chunk(2, 1)
        d_inputs, d_hidden = torch.empty_like(hidden), torch.empty_like(hidden)
        d_gates, d_new = d_inputs[:, :split], d_inputs[:, split:]
        d_h = d_next * update
        tanh_backward(d_next - d_h, new, grad_input=d_new)
        torch.mul(d_new, reset, out=d_hidden[:, split:])
        d_reset, d_update = d_gates.chunk(2, 1)
        torch.mul(d_new, hidden[:, split:], out=d_reset)
        torch.sub(h, new, out=d_update).mul_(d_next)
        sigmoid_backward(d_gates, reset_update, grad_input=d_gates)
        d_hidden[:, :split] = d_gates
        return d_inputs, d_hidden, d_h


class _LSTM(torch.autograd.Function):
    """`lstm_cell`, fused, of the sum of its gates."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        dim, activated = c.size(1), torch.empty_like(gates)
        torch.sigmoid(gates[:, : 2 * dim], out=activated[:, : 2 * dim])
        torch.tanh(gates[:, 2 * dim : 3 * dim], out=activated[:, 2 * dim : 3 * dim])
        torch.sigmoid(gates[:, 3 * dim :], out=activated[:, 3 * dim :])
        i, f, g, o = activated.chunk(4, 1)
        next_c = torch.mul(f, c).addcmul_(i, g)
        tanh = torch.tanh(next_c)
        ctx.save_for_backward(activated, c, tanh)
        return o * tanh, next_c

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_h: Tensor, d_next_c: Tensor) -> tuple[Tensor, Tensor]:
        activated, c, tanh = ctx.saved_tensors
        i, f, g, o = activated.chunk(4, 1)
        d_gates = torch.empty_like(activated)
        d_i, d_f, d_g, d_o = d_gates.chunk(4, 1)
        d_c = torch.mul(d_h, o)
        tanh_backward(d_c, tanh, grad_input=d_c)
        d_c += d_next_c
        torch.mul(d_c, g, out=d_i)
        torch.mul(d_c, c, out=d_f)
        torch.mul(d_c, i, out=d_g)
        torch.mul(d_h, tanh, out=d_o)
        both, activated_both = d_gates[:, : 2 * c.size(1)], activated[:, : 2 * c.size(1)]
        sigmoid_backward(both, activated_both, grad_input=both)
        tanh_backward(d_g, g, grad_input=d_g)
        sigmoid_backward(d_o, o, grad_input=d_o)
        return d_gates, d_c.mul_(f)


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
        return _StepProduct.apply(self._base[step], x, self._weight)  # type: ignore[no-untyped-call]


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
        self._inputs: Any = gates.split(list(rows)) if weight is None else DeferredLinear(gates, weight, rows)
        self._hidden = DeferredLinear(bias.to(gates.dtype).expand_as(gates), hidden, rows)

    def __call__(self, step: int, x: Tensor | None, state: RNNState) -> RNNState:
        """[n, I], (h,) -> (h,)"""
        inputs = self._inputs[step] if x is None else self._inputs(step, x)
        (h,) = state
        return (_GRU.apply(inputs, self._hidden(step, h), h.to(self._dtype)),)  # type: ignore[no-untyped-call]


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
        return _LSTM.apply(gates, c.to(self._dtype))  # type: ignore[no-untyped-call]


CellType = Literal["gru", "lstm"]
FUSED_CELLS: dict[CellType, type[FusedGRUCell | FusedLSTMCell]] = {"gru": FusedGRUCell, "lstm": FusedLSTMCell}
