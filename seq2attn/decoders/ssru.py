"""SSRU decoder: a Transformer decoder with a recurrent unit in place of the self-attention (Kim et al. 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from seq2attn.attention.attention_config import AttentionConfig, default_score
from seq2attn.decoders.base import AttentionDecoderBaseConfig
from seq2attn.decoders.transformer import DecoderLayer, LayerContext, TransformerDecoder
from seq2attn.encoders.base import Encoder
from seq2attn.encoders.transformer import TransformerLayersConfig
from seq2attn.nn.kernels.ssru import SSRU


@dataclass(frozen=True)
class Cells:
    """Cells of all layers in the place of a KV cache; their size does not depend on the number of target tokens."""

    layers: tuple[Tensor, ...]  # each [N, D]

    def extend(self, steps: int) -> tuple[Tensor, ...]:
        """The cell of each layer, to be updated with `steps` tokens of each row."""
        return self.layers

    def finish(self, layers: Sequence[Tensor]) -> Cells:
        """The cells after the update of all layers."""
        return Cells(tuple(layers))


class SSRUDecoderLayer(DecoderLayer[Tensor]):
    """SSRU, cross-attention and feed-forward, each with a residual connection."""

    def __init__(self, config: SSRUDecoderConfig, dim: int, encoder: Encoder) -> None:
        super().__init__()
        self.ssru = SSRU(dim, bias=config.bias)
        self.ssru_residual = config.build_residual(dim)
        self.cross_attention = config.attention.build(dim, encoder.key_dim, encoder.value_dim, dim)
        self.cross_attention_residual = config.build_residual(dim)
        self.feed_forward = config.build_feed_forward(dim)
        self.feed_forward_residual = config.build_residual(dim)

    def attend_target(self, x: Tensor, cached: Tensor, context: LayerContext) -> tuple[Tensor, Tensor, None]:
        """SSRU: x [N, T, D] -> [N, T, D], and the cell after the last token [N, D]"""
        hidden, cell = self.ssru(self.ssru_residual.sublayer_input(x), cached, context.layout)
        return self.ssru_residual.add_output(x, hidden), cell, None


class SSRUDecoderConfig(TransformerLayersConfig, AttentionDecoderBaseConfig):
    """Transformer decoder with an SSRU in place of the self-attention, of the width of the target embeddings.

    Its decoding state does not grow with the translation."""

    kind: Literal["ssru"] = "ssru"
    position_encoding: Literal["sinusoidal", "learned"] = "sinusoidal"
    """Vectors that are added to the embeddings."""
    attention: Annotated[AttentionConfig, default_score({"kind": "multi-head"})] = Field({}, validate_default=True)
    """Cross-attention of each layer; values are projected to the width of the decoder. Default of `score`:
    `{kind: multi-head, heads: 8}`."""

    def build(self, input_dim: int, encoder: Encoder) -> TransformerDecoder[Tensor]:
        """Raises ValueError when the heads of the cross-attention do not divide `input_dim`."""
        build_layer = partial(SSRUDecoderLayer, self, input_dim, encoder)
        return TransformerDecoder(self, input_dim, build_layer, partial(self.build_cache, input_dim))

    def build_cache(self, dim: int, like: Tensor, layers: int) -> Cells:
        """A cell of zeros [B, D] of each layer, in float32 at least, for the keys [B, S, Dk] of an encoder."""
        dtype = torch.promote_types(like.dtype, torch.float32)
        return Cells((like.new_zeros(like.size(0), dim, dtype=dtype),) * layers)
