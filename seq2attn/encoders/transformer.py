"""The Transformer encoder: Vaswani et al. 2017, section 3.1."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from seq2attn.attention import multi_head
from seq2attn.config.base import Config
from seq2attn.encoders.base import Encoded, Encoder, mean_word
from seq2attn.initial import initialise
from seq2attn.layers import FeedForward, Learned, Residual, Sinusoidal


class TransformerConfig(Config):
    """What the Transformer's encoder and decoder have in common; both are as wide as their embeddings."""

    kind: Literal["transformer"]
    layers: PositiveInt = 6
    heads: PositiveInt = 8
    """Heads of the self-attention; they must divide the width of the embeddings."""
    feed_forward: PositiveInt = 2048
    """Width of the hidden layer of the feed-forward parts."""
    norm: Literal["pre", "post"] = "pre"
    """Normalise before each part or after its sum."""
    activation: Literal["relu", "gelu"] = "relu"
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    max_positions: PositiveInt = 1024
    """How many positions are learned; later words share the last one."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """On the embeddings with their positions, inside the feed-forward parts and on every residual branch."""
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    """On self-attention weights (CPU: anything but 0 costs the fused kernel)."""

    def position_vectors(self, dim: int) -> nn.Module:
        """A module that turns positions [...] into vectors [..., dim]."""
        return Sinusoidal(dim) if self.positions == "sinusoidal" else Learned(dim, self.max_positions)


class TransformerEncoder(Encoder):
    """Self-attention and feed-forward layers over words with positions."""

    def __init__(self, config: TransformerConfig, dim: int) -> None:
        super().__init__()
        self.positions = config.position_vectors(dim)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(TransformerEncoderLayer(config, dim) for _ in range(config.layers))
        self.norm = nn.LayerNorm(dim) if config.norm == "pre" else nn.Identity()
        self.key_dim = self.value_dim = self.final_dim = dim
        initialise(self)

    def forward(self, words: Tensor, mask: Tensor, *, need_weights: bool = False) -> Encoded:
        """words [B, S, D], mask [B, S]."""
        position = torch.arange(words.size(1), device=words.device)
        x = self.dropout(words + self.positions(position).to(words.dtype))
        looked = []
        for layer in self.layers:
            x, weights = layer(x, mask, need_weights)
            looked.append(weights)
        x = self.norm(x)
        return Encoded(x, x, mask, (mean_word(x, mask),), torch.stack(looked, 1) if need_weights else None)


class TransformerEncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each in a residual branch."""

    def __init__(self, config: TransformerConfig, dim: int) -> None:
        super().__init__()
        self.attention = multi_head(dim, config.heads, config.attention_dropout)
        self.attention_branch = Residual(dim, config.dropout, config.norm)
        self.feed_forward = FeedForward(dim, config.feed_forward, config.dropout, config.activation)
        self.feed_forward_branch = Residual(dim, config.dropout, config.norm)

    def forward(self, x: Tensor, mask: Tensor, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """x [B, S, D], mask [B, S] -> [B, S, D], and weights [B, H, S, S] when they are needed"""
        y = self.attention_branch.enter(x)
        position = torch.arange(x.size(1), device=x.device).expand(x.size(0), -1)
        memory = self.attention.project(y, y, mask)
        read = self.attention(y, memory, position, need_weights=need_weights)
        x = self.attention_branch.leave(x, read.context)
        x = self.feed_forward_branch.leave(x, self.feed_forward(self.feed_forward_branch.enter(x)))
        return x, read.weights


class TransformerEncoderConfig(TransformerConfig):
    """A Transformer encoder, as wide as the source embeddings."""

    def build(self, input_dim: int) -> TransformerEncoder:
        """Raises ValueError when the heads do not divide `input_dim`."""
        return TransformerEncoder(self, input_dim)
