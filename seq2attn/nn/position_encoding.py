"""Position encodings that are added to embeddings."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class SinusoidalPositionEncoding(nn.Module):
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


class LearnedPositionEmbedding(nn.Module):
    """A learned vector for each of the first `most` positions; all later ones share the last (Gehring et al. 2017)."""

    def __init__(self, dim: int, most: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(most, dim)
        nn.init.normal_(self.embedding.weight, std=dim**-0.5)

    def forward(self, position: Tensor) -> Tensor:
        """[...] -> [..., D]"""
        vectors: Tensor = self.embedding(position.clamp_max(self.embedding.num_embeddings - 1))
        return vectors


class NoPositionEncoding(nn.Module):
    """Zero, for self-attention that tells by itself how far apart words stand."""

    def forward(self, position: Tensor) -> Tensor:
        """[...] -> []"""
        return torch.zeros((), device=position.device)
