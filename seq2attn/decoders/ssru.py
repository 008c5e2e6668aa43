"""SSRU decoder: a Transformer decoder with a recurrent unit in place of the self-attention (Kim et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn

from seq2attn.attention.attention import AttentionOutput, Memories
from seq2attn.attention.base import AttentionState
from seq2attn.attention.config import AttentionConfig
from seq2attn.attention.scores import MultiHeadScoreConfig
from seq2attn.decoders.base import Decoder, DecoderOutput, next_positions
from seq2attn.decoders.transformer import CrossAttentionLayer
from seq2attn.encoders.base import Encoder, EncoderOutput
from seq2attn.encoders.transformer import TransformerLayersConfig
from seq2attn.nn.dropout import Dropout
from seq2attn.nn.initialization import initialize_parameters
from seq2attn.nn.layers import LayerDrop
from seq2attn.nn.rnn.ssru import SSRU
from seq2attn.nn.varlen import SequenceLayout


@dataclass(frozen=True)
class SSRUDecoderState:
    """Cells and attention states after some target tokens; its size does not depend on their number."""

    cells: tuple[Tensor, ...]  # of each layer, [N, D]
    attention_states: tuple[AttentionState, ...]  # of the cross-attention of each layer
    position: Tensor  # [N]: number of decoded tokens


class SSRUDecoder(Decoder[SSRUDecoderState]):
    """Layers of SSRU, cross-attention and feed-forward over embeddings with positions."""

    def __init__(self, config: SSRUDecoderConfig, dim: int, encoder: Encoder) -> None:
        super().__init__()
        self.position_encoding = config.build_position_encoding(dim)
        self.dropout, self.layer_drop = Dropout(config.dropout), LayerDrop(config.layer_dropout)
        self.layers = nn.ModuleList(SSRUDecoderLayer(config, dim, encoder) for _ in range(config.layers))
        self.norm = config.build_final_norm(dim)
        self.dim = dim
        initialize_parameters(self)

    def init_state(self, encoded: EncoderOutput) -> tuple[Memories, SSRUDecoderState]:
        """Projected source for every layer, and a state with cells of zeros."""
        attentions = [layer.cross_attention for layer in self._layers()]
        source = encoded.keys, encoded.values, encoded.mask, encoded.layout
        memory = tuple(attention.project_memory(*source) for attention in attentions)
        rows, dtype = encoded.keys.size(0), torch.promote_types(encoded.keys.dtype, torch.float32)
        cell = encoded.keys.new_zeros(rows, self.dim, dtype=dtype)
        attention_states = tuple(attention.initial_state(m) for attention, m in zip(attentions, memory, strict=True))
        position = encoded.mask.new_zeros(rows, dtype=torch.long)
        return memory, SSRUDecoderState((cell,) * len(attentions), attention_states, position)

    def forward(
        self,
        embedded: Tensor,
        state: SSRUDecoderState,
        memory: Memories,
        *,
        need_weights: bool = False,
        layout: SequenceLayout | None = None,
    ) -> DecoderOutput:
        """embedded [N, T, D], in one call

        `layout`: of whole target sentences that are packed in one row, as those of the memory are; the state must be
        initial, and cannot be used afterwards.
        """
        position = next_positions(state.position, embedded) if layout is None else layout.positions
        x = self.dropout(embedded + self.position_encoding(position).to(embedded.dtype))
        cells: list[Tensor] = []
        outputs: list[AttentionOutput] = []
        for layer, cell, source, attention_state in zip(
            self._layers(), state.cells, memory, state.attention_states, strict=True
        ):
            fx, new_cell = layer.ssru(layer.ssru_residual.sublayer_input(x), cell, layout)
            y = layer.ssru_residual.add_output(x, fx)
            y, output = layer.attend_source(y, source, attention_state, position, layout, need_weights=need_weights)
            x = self.layer_drop(x, y)
            cells.append(new_cell)
            outputs.append(output)
        new_state = SSRUDecoderState(
            tuple(cells), tuple(output.state for output in outputs), state.position + embedded.size(1)
        )
        return DecoderOutput.from_attentions(self.norm(x), new_state, outputs)

    def _layers(self) -> list[SSRUDecoderLayer]:
        return cast("list[SSRUDecoderLayer]", list(self.layers))


class SSRUDecoderLayer(CrossAttentionLayer):
    """SSRU, cross-attention and feed-forward, each with a residual connection."""

    def __init__(self, config: SSRUDecoderConfig, dim: int, encoder: Encoder) -> None:
        super().__init__()
        self.ssru = SSRU(dim, bias=config.bias)
        self.ssru_residual = config.build_residual(dim)
        self.build_cross_attention(config, config.attention.build(dim, encoder.key_dim, encoder.value_dim, dim), dim)


class SSRUDecoderConfig(TransformerLayersConfig):
    """Transformer decoder with an SSRU in place of the self-attention, of the width of the target embeddings.

    Its decoding state does not grow with the translation."""

    kind: Literal["ssru"]
    position_encoding: Literal["sinusoidal", "learned"] = "sinusoidal"
    """Vectors that are added to the embeddings."""
    attention: AttentionConfig = AttentionConfig(score=MultiHeadScoreConfig(kind="multi-head", heads=8))
    """Cross-attention of each layer; values are projected to the width of the decoder."""

    def build(self, input_dim: int, encoder: Encoder) -> SSRUDecoder:
        """Raises ValueError when the heads of the cross-attention do not divide `input_dim`."""
        return SSRUDecoder(self, input_dim, encoder)
