"""Word ids to vectors."""

from __future__ import annotations

import math

from torch import Tensor, nn

from seq2attn.nn.dropout import Dropout
from seq2attn.nn.initialization import initialize_parameters


class TokenEmbedding(nn.Module):
    """A vector for each word of a vocabulary, times sqrt(dim) when scaled (Vaswani et al. 2017, section 3.4)."""

    def __init__(self, size: int, dim: int, *, scaled: bool, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size, dim)
        self.scale = math.sqrt(dim) if scaled else 1.0
        self.dropout = Dropout(dropout)
        initialize_parameters(self)

    def forward(self, words: Tensor) -> Tensor:
        """ids [B, T] -> [B, T, E]"""
        vectors: Tensor = self.dropout(self.embedding(words) * self.scale)
        return vectors
