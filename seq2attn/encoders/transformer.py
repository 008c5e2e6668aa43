"""The Transformer encoder: Vaswani et al. 2017, section 3.1, with what has replaced its parts since."""

from __future__ import annotations

from typing import Literal, Self

import torch
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from seq2attn.attention import Attention, self_attention
from seq2attn.attention.relative_positions import Relative, Rotary
from seq2attn.attention.scores import MultiHead, check_groups
from seq2attn.config.base import Config
from seq2attn.encoders.base import Encoded, Encoder, mean_word
from seq2attn.nn.dropout import Dropout
from seq2attn.nn.feed_forward import FeedForward, GatedFeedForward
from seq2attn.nn.initialization import initialise
from seq2attn.nn.position_encoding import Learned, Sinusoidal, Unplaced
from seq2attn.nn.residual import Residual
from seq2attn.nn.varlen import Spans


class TransformerConfig(Config):
    """What the Transformer's encoder and decoder have in common; both are as wide as their embeddings."""

    kind: Literal["transformer"]
    layers: PositiveInt = 6
    heads: PositiveInt = 8
    """Heads of the self-attention; they must divide the width of the embeddings."""
    groups: PositiveInt | None = None
    """How many heads its keys and values have, which those of the query share; as many if it is not given."""
    feed_forward: PositiveInt = 2048
    """Width of the hidden layer of the feed-forward parts."""
    activation: Literal["relu", "gelu", "swiglu"] = "relu"
    """Of that layer; swiglu multiplies it by a gate, with three matrices instead of two."""
    norm: Literal["pre", "post"] = "pre"
    """Normalise before each part or after its sum."""
    norm_layer: Literal["layer", "rms"] = "layer"
    """layer: by mean and deviation; rms: by the root of the mean square alone."""
    positions: Literal["sinusoidal", "learned", "relative", "rotary"] = "sinusoidal"
    """Added to the embeddings, or, relative and rotary, known to the self-attention alone.

    On a CPU, training relative ones costs the fused kernel."""
    max_positions: PositiveInt = 1024
    """How many positions are learned; later words share the last one."""
    max_distance: PositiveInt = 16
    """Up to which distance relative positions tell words apart."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """On the embeddings with their positions, inside the feed-forward parts and on every residual branch."""
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    """On self-attention weights (CPU: anything but 0 costs the fused kernel)."""

    @model_validator(mode="after")
    def _groups_divide(self) -> Self:
        return check_groups(self, self.groups, self.heads)

    def position_vectors(self, dim: int) -> nn.Module:
        """A module that turns positions [...] into vectors [..., dim] for the embeddings."""
        if self.positions == "sinusoidal":
            return Sinusoidal(dim)
        return Learned(dim, self.max_positions) if self.positions == "learned" else Unplaced()

    def self_attention(self, dim: int) -> Attention:
        """Of words to each other. Raises ValueError when the heads do not divide `dim`."""
        score: MultiHead
        if self.positions == "relative":
            score = Relative(dim, self.heads, self.groups, self.max_distance)
        elif self.positions == "rotary":
            score = Rotary(dim, self.heads, self.groups)
        else:
            score = MultiHead(dim, dim, self.heads, self.groups)
        return self_attention(dim, score, self.attention_dropout)

    def feed_forward_part(self, dim: int) -> nn.Module:
        """[B, T, dim] -> [B, T, dim]"""
        if self.activation == "swiglu":
            return GatedFeedForward(dim, self.feed_forward, self.dropout)
        return FeedForward(dim, self.feed_forward, self.dropout, self.activation)

    def branch(self, dim: int) -> Residual:
        """What joins a part to what it was given."""
        return Residual(self._norm(dim), self.dropout, self.norm)

    def last_norm(self, dim: int) -> nn.Module:
        """What pre-norm layers leave to the end."""
        return self._norm(dim) if self.norm == "pre" else nn.Identity()

    def _norm(self, dim: int) -> nn.Module:
        """Ba et al. 2016, or Zhang and Sennrich 2019, eq. 4."""
        return nn.LayerNorm(dim) if self.norm_layer == "layer" else nn.RMSNorm(dim, eps=1e-6)


class TransformerEncoder(Encoder):
    """Self-attention and feed-forward layers over words with positions."""

    def __init__(self, config: TransformerConfig, dim: int) -> None:
        super().__init__()
        self.positions = config.position_vectors(dim)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(TransformerEncoderLayer(config, dim) for _ in range(config.layers))
        self.norm = config.last_norm(dim)
        self.key_dim = self.value_dim = self.final_dim = dim
        initialise(self)

    def forward(self, words: Tensor, mask: Tensor, spans: Spans | None = None) -> Encoded:
        """words [B, S, D], mask [B, S]; `spans` tells of sentences that lie in one row."""
        return self._read(words, mask, spans, need_weights=False)[0]

    def look(self, words: Tensor, mask: Tensor) -> tuple[Encoded, Tensor | None]:
        """words [B, S, D], mask [B, S]; the weights are those of all layers."""
        return self._read(words, mask, None, need_weights=True)

    def _read(
        self, words: Tensor, mask: Tensor, spans: Spans | None, *, need_weights: bool
    ) -> tuple[Encoded, Tensor | None]:
        position = torch.arange(words.size(1), device=words.device) if spans is None else spans.position
        x = self.dropout(words + self.positions(position).to(words.dtype))
        looked = []
        for layer in self.layers:
            x, weights = layer(x, mask, position, spans, need_weights=need_weights)
            looked.append(weights)
        x = self.norm(x)
        weights = torch.stack(looked, 1) if need_weights else None
        final = (mean_word(x, mask),) if spans is None else ()
        return Encoded(x, x, mask, final, spans), weights


class TransformerEncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each in a residual branch."""

    def __init__(self, config: TransformerConfig, dim: int) -> None:
        super().__init__()
        self.attention = config.self_attention(dim)
        self.attention_branch = config.branch(dim)
        self.feed_forward = config.feed_forward_part(dim)
        self.feed_forward_branch = config.branch(dim)

    def forward(
        self, x: Tensor, mask: Tensor, position: Tensor, spans: Spans | None, *, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """x [B, S, D], mask [B, S], position [S] or [B, S] -> [B, S, D], and weights [B, H, S, S] if they are needed"""
        y = self.attention_branch.enter(x)
        memory = self.attention.project(y, y, mask, spans)
        position = position.expand(x.size(0), -1)
        read = self.attention(y, memory, position, need_weights=need_weights, spans=spans)
        x = self.attention_branch.leave(x, read.context)
        x = self.feed_forward_branch.leave(x, self.feed_forward(self.feed_forward_branch.enter(x)))
        return x, read.weights


class TransformerEncoderConfig(TransformerConfig):
    """A Transformer encoder, as wide as the source embeddings."""

    def build(self, input_dim: int) -> TransformerEncoder:
        """Raises ValueError when the heads do not divide `input_dim`."""
        return TransformerEncoder(self, input_dim)
