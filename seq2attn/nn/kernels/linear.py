"""Linear layers by oneDNN, whose float32 kernels are faster on a CPU than those that PyTorch uses by default.

PyTorch's compiler calls oneDNN through operators of its own, which are called here; without them, for other dtypes and
on other devices, the usual product is used. On one core of an AMD EPYC with AVX-512: 100 to 108 GFLOP/s, not 78 to 92.

Shapes: M rows, I inputs, O outputs.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

MIN_ROWS = 64
"""Minimum rows of a product: for fewer, reordering the weight costs more than the kernel gains."""
ROW_MULTIPLE = 32
"""Rows must be a multiple of this: for each other number oneDNN would compile and keep 1 MB of kernels."""
SEARCH_ROWS = 8
"""Rows that a weight is prepacked for in a search: about those of one sentence."""
MIN_TOTAL_ROWS = 512
"""Minimum rows of all products with a weight that is prepacked once for them."""


HAS_ONEDNN = torch.backends.mkldnn.is_available() and all(
    hasattr(torch.ops.mkldnn, name) for name in ("_linear_pointwise", "_reorder_linear_weight")
)


def supports_onednn(x: Tensor) -> bool:
    """True if oneDNN can multiply x: float32 on a CPU."""
    is_float32 = x.device.type == "cpu" and x.dtype == torch.float32
    return is_float32 and HAS_ONEDNN and not torch.is_autocast_enabled("cpu") and x.numel() > 0


def prefers_onednn(x: Tensor) -> bool:
    """True if oneDNN multiplies x [..., I] with a weight faster."""
    if torch.compiler.is_compiling():  # it would recompile for each branch on sizes
        return False
    rows = x.numel() // max(1, x.size(-1))
    return rows >= MIN_ROWS and rows % ROW_MULTIPLE == 0 and supports_onednn(x)


def onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str = "none") -> Tensor:
    """x W' + b, or its "relu", without gradients: [M, I], [O, I], [O] -> [M, O]; W may be prepacked."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, activation, [], "")


def prepack_weight(weight: Tensor, rows: int) -> Tensor:
    """W [O, I] in oneDNN's layout for products of `rows` rows."""
    return torch.ops.mkldnn._reorder_linear_weight(weight, rows)


class PrepackedWeight:
    """A weight of many products, prepacked once for them: x W' + base, and d W, without gradients."""

    def __init__(self, weight: Tensor, rows: int, times: int) -> None:
        """weight [O, I] of about `times` products of `rows` rows each"""
        self._weight, self._rows = weight.detach(), rows
        uses_onednn = supports_onednn(self._weight) and rows * times >= MIN_TOTAL_ROWS
        self._prepacked = prepack_weight(self._weight, rows) if uses_onednn else None
        self._prepacked_transpose: Tensor | None = None

    def forward(self, x: Tensor, base: Tensor) -> Tensor:
        """[M, I], [M, O] -> [M, O]"""
        if self._prepacked is None:
            return torch.addmm(base, x, self._weight.t())
        return onednn_linear(x, self._prepacked).add_(base)

    def backward(self, d: Tensor) -> Tensor:
        """[M, O] -> [M, I]"""
        if self._prepacked is None:
            return d @ self._weight
        if self._prepacked_transpose is None:
            self._prepacked_transpose = prepack_weight(self._weight.t(), self._rows)
        return onednn_linear(d, self._prepacked_transpose)


def linear_input_grad(d: Tensor, weight: Tensor) -> Tensor:
    """d W, the gradient of x from that of x W', without gradients: [M, O], [O, I] -> [M, I]"""
    return onednn_linear(d, weight.t()) if prefers_onednn(d) else d @ weight


class Linear(nn.Linear):
    """PyTorch's linear layer, computed by oneDNN where that is faster."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., I] -> [..., O]"""
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x W' + b with gradients: [..., I], [O, I], [O] -> [..., O]"""
    if not prefers_onednn(x):
        return F.linear(x, weight, bias)
    y: Tensor = _Linear.apply(x.flatten(0, -2), weight, bias)  # type: ignore[no-untyped-call]
    return y.unflatten(0, x.shape[:-1])


Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]


def linear_gradients(ctx: Any, d: Tensor, x: Tensor, weight: Tensor) -> Gradients:
    """Gradients of x, weight and bias from that of the output."""
    needs_x, needs_weight, needs_bias, *_ = ctx.needs_input_grad
    return (
        linear_input_grad(d, weight) if needs_x else None,
        d.t() @ x if needs_weight else None,
        d.sum(0) if needs_bias else None,
    )


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return onednn_linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d: Tensor) -> Gradients:
        return linear_gradients(ctx, d, *ctx.saved_tensors)


class PrepackedLinear(nn.Linear):
    """A linear layer with a second copy of its weight, prepacked for few rows.

    Five rows through 512 x 8,000 take a third of the time. The copy does not follow later changes of the weight.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
        self.weight, self.bias = layer.weight, layer.bias
        self._prepacked = prepack_weight(layer.weight.detach(), SEARCH_ROWS)

    def forward(self, x: Tensor) -> Tensor:
        """[..., I] -> [..., O]"""
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or not supports_onednn(x):
            return super().forward(x)
        return onednn_linear(x, self._prepacked, self.bias)


def prepack_linears(model: nn.Module) -> None:
    """Prepack all linear layers inside a model, once its weights are loaded, for a search."""
    for module in list(model.modules()):
        for name, layer in module.named_children():
            if isinstance(layer, nn.Linear) and supports_onednn(layer.weight):
                setattr(module, name, PrepackedLinear(layer))
