"""Small layers that encoders and decoders share."""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.dropout import Dropout
from seq2attn.products import Linear, pays, relu_linear


class FeedForward(nn.Module):
    """Two linear layers with a ReLU or GELU between them: Vaswani et al. 2017, eq. 2."""

    def __init__(self, dim: int, hidden: int, dropout: float, activation: Literal["relu", "gelu"]) -> None:
        super().__init__()
        self.enter, self.leave = Linear(dim, hidden), Linear(hidden, dim)
        self.dropout = Dropout(dropout)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, D]"""
        if self.activation == "relu" and self.training and pays(x):
            return self.leave(relu_linear(x, self.enter.weight, self.enter.bias, self.dropout.probability()))
        hidden = self.enter(x)
        in_place = not torch.is_grad_enabled()  # memory for another table takes ten times as long as the ReLU
        hidden = F.relu(hidden, in_place) if self.activation == "relu" else F.gelu(hidden)
        return self.leave(self.dropout(hidden))


class GatedFeedForward(nn.Module):
    """SwiGLU, (Swish(x W) * x V) W2 without biases: Shazeer 2020, eq. 6.

    It has three matrices where others have two: two thirds of their hidden width make as many weights.
    """

    def __init__(self, dim: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.gate, self.enter = Linear(dim, hidden, bias=False), Linear(dim, hidden, bias=False)
        self.leave = Linear(hidden, dim, bias=False)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, D]"""
        return self.leave(self.dropout(F.silu(self.gate(x)) * self.enter(x)))


class Residual(nn.Module):
    """x + f(x) with dropout and a norm: before f (pre-norm) or after the sum (post-norm).

    Vaswani et al. 2017, section 5.4, is post-norm; Xiong et al. 2020 compare both.
    """

    def __init__(self, norm: nn.Module, dropout: float, place: Literal["pre", "post"]) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.first = place == "pre"

    def enter(self, x: Tensor) -> Tensor:
        """What f is given: [B, T, D] -> [B, T, D]"""
        entered: Tensor = self.norm(x) if self.first else x
        return entered

    def leave(self, x: Tensor, fx: Tensor) -> Tensor:
        """x and f(enter(x)) to the layer's output, all [B, T, D]"""
        total = x + self.dropout(fx)
        return total if self.first else self.norm(total)


class Sinusoidal(nn.Module):
    """Positions as sines and cosines: Vaswani et al. 2017, section 3.5.

    As in the authors' own code (tensor2tensor), and so in CTranslate2: sines in the first half and cosines in the
    second, with wavelengths that reach 10,000 * 2 pi, where the paper's alternate and stay just below it.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, position: Tensor) -> Tensor:
        """[...] -> [..., D]"""
        half = (self.dim + 1) // 2
        exponent = torch.arange(half, device=position.device) * (-math.log(10_000.0) / max(half - 1, 1))
        angle = position.unsqueeze(-1) * exponent.exp()
        return torch.cat([angle.sin(), angle.cos()], -1)[..., : self.dim]


class Learned(nn.Module):
    """A learned vector for each of the first `most` positions; all later ones share the last (Gehring et al. 2017)."""

    def __init__(self, dim: int, most: int) -> None:
        super().__init__()
        self.table = nn.Embedding(most, dim)
        nn.init.normal_(self.table.weight, std=dim**-0.5)

    def forward(self, position: Tensor) -> Tensor:
        """[...] -> [..., D]"""
        vectors: Tensor = self.table(position.clamp_max(self.table.num_embeddings - 1))
        return vectors


class Unplaced(nn.Module):
    """Zero, for self-attention that tells by itself how far apart words stand."""

    def forward(self, position: Tensor) -> Tensor:
        """[...] -> []"""
        return torch.zeros((), device=position.device)
