"""SSRU decoder: a Transformer decoder with a recurrent unit in place of the self-attention (Kim et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from seq2attn.attention.attention_config import AttentionConfig, default_score
from seq2attn.decoders.transformer import CrossAttentionLayer, TransformerDecoder
from seq2attn.encoders.base import Encoder
from seq2attn.encoders.transformer import TransformerLayersConfig
from seq2attn.nn.kernels.ssru import SSRU
from seq2attn.nn.packing import SequenceLayout


@dataclass(frozen=True)
class Cells:
    """Cells of all layers in the place of a KV cache; their size does not depend on the number of target tokens."""

    layers: tuple[Tensor, ...]  # each [N, D]

    def extend(self, steps: int) -> Cells:
        """Start an update with `steps` tokens of each row."""
        return self

    def finish(self, layers: list[Tensor]) -> Cells:
        """The cells after the update of all layers."""
        return Cells(tuple(layers))


class SSRUDecoderLayer(CrossAttentionLayer):
    """SSRU, cross-attention and feed-forward, each with a residual connection."""

    def __init__(self, config: SSRUDecoderConfig, dim: int, encoder: Encoder) -> None:
        super().__init__()
        self.ssru = SSRU(dim, bias=config.bias)
        self.ssru_residual = config.build_residual(dim)
        self.build_cross_attention(config, config.attention.build(dim, encoder.key_dim, encoder.value_dim, dim), dim)

    def empty_cache(self, like: Tensor) -> Tensor:
        """A cell of zeros [B, D], in float32 at least."""
        dtype = torch.promote_types(like.dtype, torch.float32)
        return like.new_zeros(like.size(0), self.ssru.input_proj.out_features, dtype=dtype)

    def attend_target(
        self, x: Tensor, update: Cells, index: int, position: Tensor, layout: SequenceLayout | None, bias: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """SSRU: x [N, T, D] -> [N, T, D], and the cell after the last token [N, D]"""
        hidden, cell = self.ssru(self.ssru_residual.sublayer_input(x), update.layers[index], layout)
        return self.ssru_residual.add_output(x, hidden), cell


class SSRUDecoder(TransformerDecoder):
    """Layers of SSRU, cross-attention and feed-forward over embeddings with positions."""

    layer_type, cache_type = SSRUDecoderLayer, Cells


class SSRUDecoderConfig(TransformerLayersConfig):
    """Transformer decoder with an SSRU in place of the self-attention, of the width of the target embeddings.

    Its decoding state does not grow with the translation."""

    kind: Literal["ssru"]
    position_encoding: Literal["sinusoidal", "learned"] = "sinusoidal"
    """Vectors that are added to the embeddings."""
    attention: Annotated[AttentionConfig, default_score({"kind": "multi-head"})] = Field({}, validate_default=True)
    """Cross-attention of each layer; values are projected to the width of the decoder. Default of `score`:
    `{kind: multi-head, heads: 8}`."""

    def build(self, input_dim: int, encoder: Encoder) -> SSRUDecoder:
        """Raises ValueError when the heads of the cross-attention do not divide `input_dim`."""
        return SSRUDecoder(self, input_dim, encoder)
