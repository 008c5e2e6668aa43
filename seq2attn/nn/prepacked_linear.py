"""Linear layers whose weights are laid out for search on a CPU: few rows at a time, and no gradients.

Shapes: M rows, I what goes in, O what comes out.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2attn.nn.linear import onednn_linear, prepack_weight, supports_onednn


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
