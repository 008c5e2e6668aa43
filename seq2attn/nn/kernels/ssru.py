"""Simpler simple recurrent unit, SSRU (Kim et al. 2019): an RNN whose matrix products do not depend on its state.

Shapes: N rows, T tokens, D width.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, library, nn
from torch.autograd.function import once_differentiable

from seq2attn.nn.kernels.linear import Linear
from seq2attn.nn.packing import SequenceLayout


class SSRU(nn.Module):
    """c_t = f_t c_(t-1) + (1 - f_t) W x_t and h_t = ReLU(c_t), with f_t = sigmoid(W_f x_t + b_f)."""

    def __init__(self, dim: int, *, bias: bool = True) -> None:
        super().__init__()
        self.input_proj, self.forget_gate = Linear(dim, dim, bias=False), Linear(dim, dim, bias=bias)

    def forward(self, x: Tensor, cell: Tensor, layout: SequenceLayout | None = None) -> tuple[Tensor, Tensor]:
        """x [N, T, D], c_0 [N, D] -> h [N, T, D], c_T [N, D]

        `layout`: of sentences that are packed in one row; c_T is then that of padded sentences.
        """
        inputs, gates = self.input_proj(x), self.forget_gate(x)
        if layout is None:
            return ssru_recurrence(inputs, gates, cell)
        inputs, gates = (layout.pad(y[:, None]).squeeze(1) for y in (inputs, gates))
        h, cell = ssru_recurrence(inputs, gates, cell.expand(inputs.size(0), -1))
        return layout.unpad(h[:, None]).squeeze(1), cell


def ssru_recurrence(inputs: Tensor, gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """W x and W_f x + b_f, both [N, T, D], c_0 [N, D] -> h [N, T, D], c_T [N, D]; c has the dtype of c_0."""
    x, forget = inputs.to(cell.dtype), gates.to(cell.dtype).sigmoid()
    cells = torch.lerp(x, cell[:, None], forget) if x.size(1) == 1 else _scan_all(x, forget, cell)
    return F.relu(cells).to(inputs.dtype), cells[:, -1]


def _scan(x: Tensor, forget: Tensor, cell: Tensor) -> Tensor:
    """c_t = f_t c_(t-1) + (1 - f_t) x_t for all t, [N, T, D].

    One element-wise operation a step: a tenth of the time of a product with W on a CPU (16 to 100 tokens, 256 to 512
    wide). A parallel scan takes 15 times as long.
    """
    cells = torch.empty_like(x)
    for x_t, forget_t, cell_t in zip(x.unbind(1), forget.unbind(1), cells.unbind(1), strict=True):
        cell = torch.lerp(x_t, cell, forget_t, out=cell_t)
    return cells


def _scan_backward(d_cells: Tensor, forget: Tensor) -> Tensor:
    """The gradient of each c_t, [N, T, D], from those of the outputs."""
    total = d_cells.clone()
    d_next = total[:, -1]
    for d_cell, forget_next in zip(total[:, :-1].unbind(1)[::-1], forget[:, 1:].unbind(1)[::-1], strict=True):
        d_next = d_cell.addcmul_(d_next, forget_next)
    return total


LIBRARY = library.Library("seq2attn", "DEF")
"""Operators, whose loops a compiler would unroll for each T. PyTorch's `custom_op` would import the compiler."""
LIBRARY.define("ssru_scan(Tensor x, Tensor forget, Tensor cell) -> Tensor")
LIBRARY.define("ssru_scan_backward(Tensor d_cells, Tensor forget) -> Tensor")
for _device in ("CPU", "CUDA"):
    LIBRARY.impl("ssru_scan", _scan, _device)
    LIBRARY.impl("ssru_scan_backward", _scan_backward, _device)
LIBRARY.impl("ssru_scan", lambda x, forget, cell: torch.empty_like(x), "Meta")
LIBRARY.impl("ssru_scan_backward", lambda d_cells, forget: torch.empty_like(d_cells), "Meta")


def _scan_all(x: Tensor, forget: Tensor, cell: Tensor) -> Tensor:
    cells: Tensor = _Scan.apply(x, forget, cell)  # type: ignore[no-untyped-call]
    return cells


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, forget: Tensor, cell: Tensor) -> Tensor:
        cells: Tensor = torch.ops.seq2attn.ssru_scan(x, forget, cell)
        ctx.save_for_backward(x, forget, cell, cells)
        return cells

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_cells: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, forget, cell, cells = ctx.saved_tensors
        d_cells = torch.ops.seq2attn.ssru_scan_backward(d_cells, forget)
        previous = torch.cat([cell[:, None], cells[:, :-1]], 1)
        return d_cells - d_cells * forget, (previous - x) * d_cells, d_cells[:, 0] * forget[:, 0]
