"""The Transformer encoder: Vaswani et al. 2017, section 3.1, with what has replaced its parts since."""

from __future__ import annotations

from typing import Literal, Self

import torch
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from seq2attn.attention import Attention, build_self_attention
from seq2attn.attention.relative_positions import RelativePositionScore, RotaryScore
from seq2attn.attention.scores import MultiHeadScore, check_kv_heads
from seq2attn.config.base import Config
from seq2attn.encoders.base import Encoder, EncoderOutput, masked_mean
from seq2attn.nn.dropout import Dropout
from seq2attn.nn.initialization import initialize_parameters
from seq2attn.nn.layers import (
    FeedForward,
    GatedFeedForward,
    LearnedPositionEmbedding,
    NoPositionEncoding,
    ResidualConnection,
    SinusoidalPositionEncoding,
)
from seq2attn.nn.varlen import SequenceLayout


class TransformerConfig(Config):
    """What the Transformer's encoder and decoder have in common; both are as wide as their embeddings."""

    kind: Literal["transformer"]
    layers: PositiveInt = 6
    heads: PositiveInt = 8
    """Heads of the self-attention; they must divide the width of the embeddings."""
    kv_heads: PositiveInt | None = None
    """How many heads its keys and values have, which those of the query share; as many if it is not given."""
    ffn_dim: PositiveInt = 2048
    """Width of the hidden layer of the feed-forward parts."""
    activation: Literal["relu", "gelu", "swiglu"] = "relu"
    """Of that layer; swiglu multiplies it by a gate, with three matrices instead of two."""
    norm_order: Literal["pre", "post"] = "pre"
    """Normalize before each part or after its sum."""
    norm_type: Literal["layernorm", "rmsnorm"] = "layernorm"
    """layernorm: by mean and deviation; rmsnorm: by the root of the mean square alone."""
    position_encoding: Literal["sinusoidal", "learned", "relative", "rotary"] = "sinusoidal"
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
    def _kv_heads_divide(self) -> Self:
        return check_kv_heads(self, self.kv_heads, self.heads)

    def build_position_encoding(self, dim: int) -> nn.Module:
        """A module that turns positions [...] into vectors [..., dim] for the embeddings."""
        if self.position_encoding == "sinusoidal":
            return SinusoidalPositionEncoding(dim)
        return (
            LearnedPositionEmbedding(dim, self.max_positions)
            if self.position_encoding == "learned"
            else NoPositionEncoding()
        )

    def build_self_attention(self, dim: int) -> Attention:
        """Of words to each other. Raises ValueError when the heads do not divide `dim`."""
        score: MultiHeadScore
        if self.position_encoding == "relative":
            score = RelativePositionScore(dim, self.heads, self.kv_heads, self.max_distance)
        elif self.position_encoding == "rotary":
            score = RotaryScore(dim, self.heads, self.kv_heads)
        else:
            score = MultiHeadScore(dim, dim, self.heads, self.kv_heads)
        return build_self_attention(dim, score, self.attention_dropout)

    def build_feed_forward(self, dim: int) -> nn.Module:
        """[B, T, dim] -> [B, T, dim]"""
        if self.activation == "swiglu":
            return GatedFeedForward(dim, self.ffn_dim, self.dropout)
        return FeedForward(dim, self.ffn_dim, self.dropout, self.activation)

    def build_residual(self, dim: int) -> ResidualConnection:
        """What joins a part to what it was given."""
        return ResidualConnection(self._norm(dim), self.dropout, self.norm_order)

    def build_final_norm(self, dim: int) -> nn.Module:
        """What pre-norm layers leave to the end."""
        return self._norm(dim) if self.norm_order == "pre" else nn.Identity()

    def _norm(self, dim: int) -> nn.Module:
        """Ba et al. 2016, or Zhang and Sennrich 2019, eq. 4."""
        return nn.LayerNorm(dim) if self.norm_type == "layernorm" else nn.RMSNorm(dim, eps=1e-6)


class TransformerEncoder(Encoder):
    """Self-attention and feed-forward layers over words with positions."""

    def __init__(self, config: TransformerConfig, dim: int) -> None:
        super().__init__()
        self.position_encoding = config.build_position_encoding(dim)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(TransformerEncoderLayer(config, dim) for _ in range(config.layers))
        self.norm = config.build_final_norm(dim)
        self.key_dim = self.value_dim = self.final_dim = dim
        initialize_parameters(self)

    def forward(self, words: Tensor, mask: Tensor, layout: SequenceLayout | None = None) -> EncoderOutput:
        """words [B, S, D], mask [B, S]; `layout` tells of sentences that lie in one row."""
        return self._read(words, mask, layout, need_weights=False)[0]

    def forward_with_weights(self, words: Tensor, mask: Tensor) -> tuple[EncoderOutput, Tensor | None]:
        """words [B, S, D], mask [B, S]; the weights are those of all layers."""
        return self._read(words, mask, None, need_weights=True)

    def _read(
        self, words: Tensor, mask: Tensor, layout: SequenceLayout | None, *, need_weights: bool
    ) -> tuple[EncoderOutput, Tensor | None]:
        position = torch.arange(words.size(1), device=words.device) if layout is None else layout.positions
        x = self.dropout(words + self.position_encoding(position).to(words.dtype))
        looked = []
        for layer in self.layers:
            x, weights = layer(x, mask, position, layout, need_weights=need_weights)
            looked.append(weights)
        x = self.norm(x)
        weights = torch.stack(looked, 1) if need_weights else None
        final = (masked_mean(x, mask),) if layout is None else ()
        return EncoderOutput(x, x, mask, final, layout), weights


class TransformerEncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each in a residual branch."""

    def __init__(self, config: TransformerConfig, dim: int) -> None:
        super().__init__()
        self.self_attention = config.build_self_attention(dim)
        self.self_attention_residual = config.build_residual(dim)
        self.feed_forward = config.build_feed_forward(dim)
        self.feed_forward_residual = config.build_residual(dim)

    def forward(
        self, x: Tensor, mask: Tensor, position: Tensor, layout: SequenceLayout | None, *, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """x [B, S, D], mask [B, S], position [S] or [B, S] -> [B, S, D], and weights [B, H, S, S] if they are needed"""
        y = self.self_attention_residual.sublayer_input(x)
        memory = self.self_attention.project_memory(y, y, mask, layout)
        position = position.expand(x.size(0), -1)
        read = self.self_attention(y, memory, position, need_weights=need_weights, layout=layout)
        x = self.self_attention_residual.add_output(x, read.context)
        x = self.feed_forward_residual.add_output(
            x, self.feed_forward(self.feed_forward_residual.sublayer_input(x))
        )
        return x, read.weights


class TransformerEncoderConfig(TransformerConfig):
    """A Transformer encoder, as wide as the source embeddings."""

    def build(self, input_dim: int) -> TransformerEncoder:
        """Raises ValueError when the heads do not divide `input_dim`."""
        return TransformerEncoder(self, input_dim)
