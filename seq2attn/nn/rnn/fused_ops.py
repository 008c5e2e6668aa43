"""One step of a GRU or an LSTM from its gates on: few passes over memory, and only what backwards needs is kept.

Shapes: N rows, D width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
tanh_backward = torch.ops.aten.tanh_backward.grad_input


def fused_gru_cell(inputs: Tensor, hidden: Tensor, h: Tensor) -> Tensor:
    """Cho et al. 2014, eq. 5-8, with the reset gate after the product: gates of input and state [N, 3D], h [N, D].

    h, and what is made of it, may be of a wider type than the gates.
    """
    after: Tensor = _Gru.apply(inputs, hidden, h)  # type: ignore[no-untyped-call]
    return after


class _Gru(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, hidden: Tensor, h: Tensor) -> Tensor:
        two = 2 * h.size(1)
        reset_update = torch.add(inputs[:, :two], hidden[:, :two]).sigmoid_()
        reset, update = reset_update.chunk(2, 1)
        new = torch.addcmul(inputs[:, two:], reset, hidden[:, two:]).tanh_()
        ctx.save_for_backward(hidden, h, reset_update, new)
        if h.dtype != new.dtype:  # which `lerp` refuses
            return (h - new).mul_(update).add_(new)
        return torch.lerp(new, h, update)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_after: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden, h, reset_update, new = ctx.saved_tensors
        two = 2 * h.size(1)
        reset, update = reset_update.chunk(2, 1)
        d_inputs, d_hidden = torch.empty_like(hidden), torch.empty_like(hidden)
        d_gates, d_new = d_inputs[:, :two], d_inputs[:, two:]
        d_h = d_after * update
        tanh_backward(d_after - d_h, new, grad_input=d_new)
        torch.mul(d_new, reset, out=d_hidden[:, two:])
        d_reset, d_update = d_gates.chunk(2, 1)
        torch.mul(d_new, hidden[:, two:], out=d_reset)
        torch.sub(h, new, out=d_update).mul_(d_after)
        sigmoid_backward(d_gates, reset_update, grad_input=d_gates)
        d_hidden[:, :two] = d_gates
        return d_inputs, d_hidden, d_h


def fused_lstm_cell(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Hochreiter and Schmidhuber 1997 with forget gates (Gers et al. 2000): gates [N, 4D], c [N, D] -> h, c.

    c, and what is made of it, may be of a wider type than the gates.
    """
    after: tuple[Tensor, Tensor] = _Lstm.apply(gates, c)  # type: ignore[no-untyped-call]
    return after


class _Lstm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        dim, opened = c.size(1), torch.empty_like(gates)
        torch.sigmoid(gates[:, : 2 * dim], out=opened[:, : 2 * dim])
        torch.tanh(gates[:, 2 * dim : 3 * dim], out=opened[:, 2 * dim : 3 * dim])
        torch.sigmoid(gates[:, 3 * dim :], out=opened[:, 3 * dim :])
        i, f, g, o = opened.chunk(4, 1)
        after = torch.mul(f, c).addcmul_(i, g)
        tanh = torch.tanh(after)
        ctx.save_for_backward(opened, c, tanh)
        return o * tanh, after

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_h: Tensor, d_after: Tensor) -> tuple[Tensor, Tensor]:
        opened, c, tanh = ctx.saved_tensors
        i, f, g, o = opened.chunk(4, 1)
        d_gates = torch.empty_like(opened)
        d_i, d_f, d_g, d_o = d_gates.chunk(4, 1)
        d_c = torch.mul(d_h, o)
        tanh_backward(d_c, tanh, grad_input=d_c)
        d_c += d_after
        torch.mul(d_c, g, out=d_i)
        torch.mul(d_c, c, out=d_f)
        torch.mul(d_c, i, out=d_g)
        torch.mul(d_h, tanh, out=d_o)
        both, opened_both = d_gates[:, : 2 * c.size(1)], opened[:, : 2 * c.size(1)]
        sigmoid_backward(both, opened_both, grad_input=both)
        tanh_backward(d_g, g, grad_input=d_g)
        sigmoid_backward(d_o, o, grad_input=d_o)
        return d_gates, d_c.mul_(f)
