"""Position-wise feed-forward layers (Vaswani et al. 2017, section 3.3)."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.nn.dropout import Dropout
from seq2attn.nn.linear import Linear, linear_relu, prefers_onednn


class FeedForward(nn.Module):
    """Two linear layers with a ReLU or GELU between them: Vaswani et al. 2017, eq. 2."""

    def __init__(self, dim: int, hidden: int, dropout: float, activation: Literal["relu", "gelu"]) -> None:
        super().__init__()
        self.up_proj, self.down_proj = Linear(dim, hidden), Linear(hidden, dim)
        self.dropout = Dropout(dropout)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, D]"""
        if self.activation == "relu" and self.training and prefers_onednn(x):
            return self.down_proj(
                linear_relu(x, self.up_proj.weight, self.up_proj.bias, self.dropout.effective_p())
            )
        hidden = self.up_proj(x)
        in_place = not torch.is_grad_enabled()  # memory for another table takes ten times as long as the ReLU
        hidden = F.relu(hidden, in_place) if self.activation == "relu" else F.gelu(hidden)
        return self.down_proj(self.dropout(hidden))


class GatedFeedForward(nn.Module):
    """SwiGLU, (Swish(x W) * x V) W2 without biases: Shazeer 2020, eq. 6.

    It has three matrices where others have two: two thirds of their hidden width make as many weights.
    """

    def __init__(self, dim: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = Linear(dim, hidden, bias=False), Linear(dim, hidden, bias=False)
        self.down_proj = Linear(hidden, dim, bias=False)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, D]"""
        return self.down_proj(self.dropout(F.silu(self.gate_proj(x)) * self.up_proj(x)))
