"""Transformer encoder (Vaswani et al. 2017, section 3.1), and the config that it shares with the decoder."""

from collections.abc import Iterator
from typing import Literal

import torch
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor, nn

from seq2attn.attention.attention import Attention, ValueProjection
from seq2attn.attention.base import Width
from seq2attn.attention.relative_positions import RelativePositionBias
from seq2attn.attention.scores import MultiHeadScoreConfig, check_kv_heads
from seq2attn.config.base import Config, FieldError, NumLayers
from seq2attn.encoders.base import Encoder, EncoderBaseConfig, EncoderOutput
from seq2attn.nn.initialization import initialize_parameters
from seq2attn.nn.layers import (
    Activation,
    Dropout,
    FeedForward,
    GatedFeedForward,
    LayerDrop,
    LearnedPositionEmbedding,
    NoPositionEncoding,
    ResidualConnection,
    SinusoidalPositionEncoding,
    masked_mean,
)
from seq2attn.nn.packing import Sequences

GATED_ACTIVATIONS: dict[str, Activation] = {"swiglu": "silu", "geglu_tanh": "gelu_tanh"}
POSITION_OPTIONS = {
    "wavelengths": ("sinusoidal",),
    "position_offset": ("sinusoidal",),
    "max_positions": ("learned",),
    "num_buckets": ("relative-bias",),
    "max_distance": ("relative", "relative-bias"),
}
"""Options of some kinds of positions."""


class TransformerLayersConfig(Config):
    """Settings of all Transformer layers, without those of the self-attention."""

    kind: str
    layers: NumLayers = 6
    bias: bool = True
    """Biases of the linear layers; cross-attention has its own option, and gated feed-forward layers have none."""
    ffn_dim: PositiveInt = 2048
    """Width of the hidden layer of the feed-forward layers."""
    activation: Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu", "geglu_tanh"] = "relu"
    """Activation of that layer; swiglu and geglu_tanh have a gate, and three matrices instead of two."""
    norm_order: Literal["pre", "post"] = "pre"
    """Norm before each sublayer (pre) or after the residual sum (post)."""
    norm_type: Literal["layernorm", "rmsnorm"] = "layernorm"
    """LayerNorm (Ba et al. 2016) or RMSNorm (Zhang and Sennrich 2019, eq. 4)."""
    position_encoding: str
    wavelengths: Literal["tensor2tensor", "paper"] = "tensor2tensor"
    """Wavelengths of sinusoidal positions: of tensor2tensor, up to 10,000 * 2 pi, or of the paper, just below it."""
    position_offset: NonNegativeInt = 0
    """Position of the first token, for sinusoidal positions; 2 in M2M100 and NLLB."""
    max_positions: PositiveInt = 1024
    """Number of learned positions; later tokens share the last one."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout of the embeddings with positions and of every sublayer output."""
    activation_dropout: float | None = Field(None, ge=0, lt=1)
    """Dropout after the activation in the feed-forward layers; none: as `dropout`."""
    layer_dropout: float = Field(0.0, ge=0, lt=1)
    """Probability that training skips a layer (LayerDrop, Fan et al. 2020)."""

    def check_fields(self) -> Iterator[FieldError]:
        """Errors of options of other positions than its own."""
        position = self.position_encoding
        fields = type(self).model_fields
        for name, kinds in POSITION_OPTIONS.items():
            if name in fields and dict(self)[name] != fields[name].default and position not in kinds:
                message = f"has no effect with `position_encoding: {position}`; it is for {' or '.join(kinds)}"
                yield FieldError(name, message)

    @property
    def supports_padding_free(self) -> bool:
        """True without the bias of relative positions."""
        return self.position_encoding != "relative"

    @property
    def skips_layers(self) -> bool:
        """True with LayerDrop."""
        return self.layer_dropout > 0

    def build_position_encoding(self, dim: int) -> nn.Module:
        """Module for positions [...] -> vectors [..., dim] that are added to the embeddings."""
        if self.position_encoding == "sinusoidal":
            return SinusoidalPositionEncoding(dim, self.wavelengths, self.position_offset)
        if self.position_encoding == "learned":
            return LearnedPositionEmbedding(dim, self.max_positions)
        return NoPositionEncoding()

    def build_feed_forward(self, dim: int) -> nn.Module:
        """[B, T, dim] -> [B, T, dim]"""
        dropout = self.dropout if self.activation_dropout is None else self.activation_dropout
        if self.activation == "swiglu" or self.activation == "geglu_tanh":
            return GatedFeedForward(dim, self.ffn_dim, dropout, GATED_ACTIVATIONS[self.activation])
        return FeedForward(dim, self.ffn_dim, dropout, self.activation, bias=self.bias)

    def build_residual(self, dim: int) -> ResidualConnection:
        """Residual connection of a sublayer."""
        return ResidualConnection(self._norm(dim), self.dropout, self.norm_order)

    def build_final_norm(self, dim: int) -> nn.Module:
        """Final norm of pre-norm layers; identity for post-norm."""
        return self._norm(dim) if self.norm_order == "pre" else nn.Identity()

    def build_embedding_norm(self, dim: int) -> nn.Module:
        """Norm before the first layer, or identity."""
        return nn.Identity()

    def build_position_bias(self, *, bidirectional: bool) -> RelativePositionBias | None:
        """Term of the scores of all layers; None without one."""
        return None

    def _norm(self, dim: int) -> nn.Module:
        return nn.LayerNorm(dim) if self.norm_type == "layernorm" else nn.RMSNorm(dim, eps=1e-6)


class TransformerConfig(TransformerLayersConfig):
    """Settings of the Transformer encoder and decoder; both have the width of their embeddings."""

    kind: Literal["transformer"] = "transformer"
    heads: PositiveInt = 8
    """Number of heads of the self-attention; without `head_dim` it must divide the width of the embeddings."""
    kv_heads: PositiveInt | None = None
    """Number of heads of keys and values (grouped-query attention); none: as many as `heads`."""
    head_dim: PositiveInt | None = None
    """Width of a head of the self-attention; none: the width of the embeddings, divided by `heads`."""
    position_encoding: Literal["sinusoidal", "learned", "relative", "relative-bias", "rotary"] = "sinusoidal"
    """sinusoidal and learned are added to the embeddings; the others are part of the self-attention.

    relative and relative-bias (of T5) disable the fused kernel in training on a CPU."""
    max_distance: PositiveInt | None = None
    """Maximum distance of relative positions; farther ones are clipped. none: 16, or 128 for relative-bias."""
    num_buckets: int = Field(32, ge=4)
    """Number of buckets of distances for relative-bias."""
    embedding_norm: bool = False
    """Norm of the embeddings with positions, before the first layer, as in BART (Lewis et al. 2020)."""
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout of self-attention weights (on a CPU anything but 0 disables the fused kernel)."""

    def check_fields(self) -> Iterator[FieldError]:
        """Errors of options of positions, and of heads of keys and values that do not divide those of the query."""
        yield from (*super().check_fields(), *check_kv_heads(self.kv_heads, self.heads))
        exact = self.num_buckets // 2  # of one distance each
        if self.position_encoding == "relative-bias" and self._max_distance <= exact:
            buckets = f"{exact} of the {self.num_buckets} buckets have one distance each"
            yield FieldError("max_distance", f"{self._max_distance}, but {buckets}; give more than {exact}")

    def check_self_attention(self, width: Width) -> list[FieldError]:
        """Errors of heads that do not fit in a width."""
        mistakes = width.check_heads("heads", self.heads) if self.head_dim is None else []
        head_dim = self.head_dim or width.dim / self.heads
        if self.position_encoding == "rotary" and head_dim % 2 == 1:
            message = f"rotary positions need heads of an even width, not {head_dim:g}"
            mistakes.append(FieldError("position_encoding", message))
        return mistakes

    def build_embedding_norm(self, dim: int) -> nn.Module:
        """Norm before the first layer, or identity."""
        return self._norm(dim) if self.embedding_norm else nn.Identity()

    def build_self_attention(self, dim: int) -> Attention:
        """Self-attention of width `dim`. Raises ValueError when the heads do not divide `dim`."""
        config = MultiHeadScoreConfig(
            kind="multi-head", heads=self.heads, kv_heads=self.kv_heads, head_dim=self.head_dim, bias=self.bias
        )
        max_distance = self._max_distance if self.position_encoding == "relative" else None
        score = config.build(dim, dim, rotary=self.position_encoding == "rotary", max_distance=max_distance)
        projection = ValueProjection(dim, dim, self.head_dim, self.bias)
        return Attention(score, projection=projection, dropout=self.attention_dropout)

    def build_position_bias(self, *, bidirectional: bool) -> RelativePositionBias | None:
        """Term of the scores of all layers; None for other positions than relative-bias."""
        if self.position_encoding != "relative-bias":
            return None
        return RelativePositionBias(self.heads, self.num_buckets, self._max_distance, bidirectional=bidirectional)

    @property
    def _max_distance(self) -> int:
        return self.max_distance or (128 if self.position_encoding == "relative-bias" else 16)


class TransformerEncoder(Encoder):
    """Layers of self-attention and feed-forward over embeddings with positions."""

    def __init__(self, config: TransformerConfig, dim: int) -> None:
        super().__init__()
        self.position_encoding = config.build_position_encoding(dim)
        self.position_bias = config.build_position_bias(bidirectional=True)
        self.embedding_norm = config.build_embedding_norm(dim)
        self.dropout, self.layer_drop = Dropout(config.dropout), LayerDrop(config.layer_dropout)
        self.layers = nn.ModuleList(TransformerEncoderLayer(config, dim) for _ in range(config.layers))
        self.norm = config.build_final_norm(dim)
        self.key_dim = self.value_dim = self.final_dim = dim
        initialize_parameters(self)

    def forward(self, embedded: Tensor, sequences: Sequences, *, need_weights: bool = False) -> EncoderOutput:
        """embedded [B, S, D]; there are no weights of packed sentences"""
        layout = sequences.layout
        position = torch.arange(embedded.size(1), device=embedded.device) if layout is None else layout.positions
        x = self.dropout(self.embedding_norm(embedded + self.position_encoding(position).to(embedded.dtype)))
        bias = None if self.position_bias is None else self._position_bias(self.position_bias, sequences)
        all_weights = []
        for layer in self.layers:
            output, weights = layer(x, sequences, position, bias, need_weights=need_weights)
            x, _ = self.layer_drop(x, output)
            all_weights.append(weights)
        x = self.norm(x)
        final_state = (masked_mean(x, sequences.mask),) if layout is None else ()
        weights = torch.stack(all_weights, 1) if need_weights and layout is None else None
        return EncoderOutput(x, x, sequences.mask, final_state, layout, weights)

    def _position_bias(self, position_bias: RelativePositionBias, sequences: Sequences) -> Tensor:
        """[B, H, S, S], of padded sentences"""
        layout = sequences.layout
        key_mask = sequences.mask[:, None, None] if layout is None else layout.padding_mask()
        every_key = key_mask.new_ones(1, 1, 1, key_mask.size(-1))
        bias: Tensor = position_bias(torch.arange(key_mask.size(-1), device=key_mask.device)[None], every_key)
        return bias.masked_fill(~key_mask, -torch.inf)


class TransformerEncoderLayer(nn.Module):
    """Self-attention and feed-forward, each with a residual connection."""

    def __init__(self, config: TransformerConfig, dim: int) -> None:
        super().__init__()
        self.self_attention = config.build_self_attention(dim)
        self.self_attention_residual = config.build_residual(dim)
        self.feed_forward = config.build_feed_forward(dim)
        self.feed_forward_residual = config.build_residual(dim)

    def forward(
        self, x: Tensor, sequences: Sequences, position: Tensor, bias: Tensor | None, *, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """x [B, S, D], position [S] or [B, S] -> [B, S, D], and weights [B, H, S, S] if `need_weights`"""
        layout, position = sequences.layout, position.expand(x.size(0), -1)
        y = self.self_attention_residual.sublayer_input(x)
        memory = self.self_attention.project_memory(y, y, sequences.mask, layout, bias)
        output = self.self_attention(y, memory, position, need_weights=need_weights, layout=layout)
        x = self.self_attention_residual.add_output(x, output.context)
        x = self.feed_forward_residual.add_output(x, self.feed_forward(self.feed_forward_residual.sublayer_input(x)))
        return x, output.weights


class TransformerEncoderConfig(TransformerConfig, EncoderBaseConfig):
    """Transformer encoder, of the width of the source embeddings."""

    def check_widths(self, embeddings: Width) -> list[FieldError]:
        """Errors of heads that do not fit in the width of the embeddings."""
        return self.check_self_attention(embeddings)

    def build(self, input_dim: int) -> TransformerEncoder:
        """Raises ValueError when the heads do not divide `input_dim`."""
        return TransformerEncoder(self, input_dim)
