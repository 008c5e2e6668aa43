"""Products with a weight by oneDNN, whose float32 kernels are faster than those PyTorch takes for them on a CPU.

PyTorch calls oneDNN through operators that its own compiler uses; where they are missing, or a number is no float32 on
a CPU, its usual product is taken. Measured on one core of an AMD EPYC with AVX-512: 100 to 108 GFLOP/s beside 78 to 92.

Shapes: M rows, I what goes in, O what comes out.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from seq2attn.nn.dropout import dropout_mask

MIN_ROWS = 64
"""Rows of a product below which the weight costs more to lay out anew than its kernel gains."""
ROW_MULTIPLE = 32
"""Rows come in so many, or oneDNN is not asked: for each other number it would make and keep a megabyte of kernels."""
MIN_TOTAL_ROWS = 512
"""The same where the weight is laid out once for many products: rows of all of them."""


def is_grad_recording() -> bool:
    """Whether gradients will be asked for; what PyTorch traces into a program is written plainly instead."""
    return torch.is_grad_enabled() and not torch.compiler.is_compiling()


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """The type of products within autocast; None outside it, and on the meta device, which has none."""
    kind = device.type
    return torch.get_autocast_dtype(kind) if kind != "meta" and torch.is_autocast_enabled(kind) else None


def _has_onednn() -> bool:
    names = ("_linear_pointwise", "_reorder_linear_weight")
    return torch.backends.mkldnn.is_available() and all(hasattr(torch.ops.mkldnn, name) for name in names)


HAS_ONEDNN = _has_onednn()


def supports_onednn(x: Tensor) -> bool:
    """Whether oneDNN multiplies x."""
    plain = x.device.type == "cpu" and x.dtype == torch.float32
    return plain and HAS_ONEDNN and not torch.is_autocast_enabled("cpu") and x.numel() > 0


def onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, then: str = "none") -> Tensor:
    """x W' + b, or `then` its ReLU, without a gradient: [M, I], [O, I], [O] -> [M, O]; W may be prepacked."""
    made: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, then, [], "")
    return made


def prepack_weight(weight: Tensor, rows: int) -> Tensor:
    """W [O, I] as oneDNN likes it best for products of `rows` rows."""
    laid: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, rows)
    return laid


class PrepackedWeight:
    """A weight that many products share, laid out for them once: x W' + base, and x W, without gradients."""

    def __init__(self, weight: Tensor, rows: int, times: int) -> None:
        """weight [O, I] of about as many products as `times`, of `rows` rows each"""
        self._weight, self._rows = weight.detach(), rows
        self._pays = supports_onednn(self._weight) and rows * times >= MIN_TOTAL_ROWS
        self._forth = prepack_weight(self._weight, rows) if self._pays else None
        self._back: Tensor | None = None

    def forward(self, x: Tensor, base: Tensor) -> Tensor:
        """[M, I], [M, O] -> [M, O]"""
        if self._forth is None:
            return torch.addmm(base, x, self._weight.t())
        return onednn_linear(x, self._forth).add_(base)

    def backward(self, d: Tensor) -> Tensor:
        """[M, O] -> [M, I]"""
        if not self._pays:
            return d @ self._weight
        if self._back is None:
            self._back = prepack_weight(self._weight.t(), self._rows)
        return onednn_linear(d, self._back)


def prefers_onednn(x: Tensor) -> bool:
    """Whether oneDNN multiplies x [..., I] with a weight sooner."""
    if torch.compiler.is_compiling():  # which would compile anew for what is asked of sizes here
        return False
    rows = x.numel() // max(1, x.size(-1))
    return rows >= MIN_ROWS and rows % ROW_MULTIPLE == 0 and supports_onednn(x)


def linear_input_grad(d: Tensor, weight: Tensor) -> Tensor:
    """d W without a gradient, the gradient of x by that of x W': [M, O], [O, I] -> [M, I]"""
    return onednn_linear(d, weight.t()) if prefers_onednn(d) else d @ weight


class Linear(nn.Linear):
    """PyTorch's linear layer, multiplied by oneDNN where that is faster."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., I] -> [..., O]"""
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x W' + b with gradients: [..., I], [O, I], [O] -> [..., O]"""
    if not prefers_onednn(x):
        return F.linear(x, weight, bias)
    made: Tensor = _Linear.apply(x.flatten(0, -2), weight, bias)  # type: ignore[no-untyped-call]
    return made.unflatten(0, x.shape[:-1])


def linear_relu(x: Tensor, weight: Tensor, bias: Tensor, p: float) -> Tensor:
    """The ReLU of x W' + b, of which a share `p` is zeroed as dropout does: [..., I], [O, I], [O] -> [..., O]

    It keeps one table for its gradient, where a layer for each of the three would keep three.
    """
    made: Tensor = _ReluLinear.apply(x.flatten(0, -2), weight, bias, p)  # type: ignore[no-untyped-call]
    return made.unflatten(0, x.shape[:-1])


class _ReluLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, p: float) -> Tensor:
        y, ctx.scale = onednn_linear(x, weight, bias, "relu"), 1.0
        if p:
            kept, ctx.scale = dropout_mask(y.shape, p)
            y.mul_(kept).mul_(ctx.scale)
        ctx.save_for_backward(x, weight, y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        x, weight, y = ctx.saved_tensors
        d = torch.ops.aten.threshold_backward(d, y, 0).mul_(ctx.scale)  # what is zero was cut off or dropped
        for_x, for_weight, for_bias, _ = ctx.needs_input_grad
        return (
            linear_input_grad(d, weight) if for_x else None,
            d.t() @ x if for_weight else None,
            d.sum(0) if for_bias else None,
            None,
        )


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return onednn_linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        for_x, for_weight, for_bias = ctx.needs_input_grad
        return (
            linear_input_grad(d, weight) if for_x else None,
            d.t() @ x if for_weight else None,
            d.sum(0) if for_bias else None,
        )


class PrepackedLinear(nn.Linear):
    """A linear layer whose weight lies a second time in memory, as oneDNN likes it for few rows.

    Five rows through 512 x 8,000 take a third of the time. It is as good as its weight was when it was laid out.
    """

    def __init__(self, layer: nn.Linear, rows: int) -> None:
        super().__init__(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
        self.weight, self.bias = layer.weight, layer.bias
        self._prepacked = prepack_weight(layer.weight.detach(), rows)

    def forward(self, x: Tensor) -> Tensor:
        """[..., I] -> [..., O]"""
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or not supports_onednn(x):
            return super().forward(x)
        return onednn_linear(x, self._prepacked, self.bias)


def prepack_linears(model: nn.Module, rows: int = 8) -> None:
    """Lay out all linear layers inside a model for about so many rows at a time, once its weights are loaded."""
    for part in list(model.modules()):
        for name, layer in part.named_children():
            if isinstance(layer, nn.Linear) and supports_onednn(layer.weight):
                setattr(part, name, PrepackedLinear(layer, rows))
