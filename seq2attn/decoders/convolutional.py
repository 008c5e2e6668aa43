"""Convolutional decoder with multi-step attention (Gehring et al. 2017, sections 3.2 and 3.3).

Shapes: B sentences, N = B*K rows, T tokens, E width of the embeddings, D width of the convolutions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from seq2attn.attention.attention import Attention, AttentionOutput, stack_layers
from seq2attn.attention.attention_config import AttentionConfig, default_score
from seq2attn.attention.base import AttentionState, Memories, Memory
from seq2attn.decoders.base import AttentionDecoderBaseConfig, Decoder, DecoderOutput
from seq2attn.encoders.base import Encoder, EncoderOutput
from seq2attn.encoders.convolutional import SQRT_HALF, ConvolutionalConfig
from seq2attn.nn.initialization import initialize_parameters
from seq2attn.nn.kernels.linear import Linear
from seq2attn.nn.layers import Dropout, LearnedPositionEmbedding, next_positions


@dataclass(frozen=True)
class ConvolutionalDecoderState:
    """Inputs of the next convolutions and attention states, so that the cost of a step does not depend on the past."""

    conv_buffers: tuple[Tensor, ...]  # of each layer: its last kernel_size - 1 inputs [N, kernel_size - 1, D]
    attention_states: tuple[AttentionState, ...]  # of the attention of each layer
    position: Tensor  # [N]: number of decoded tokens


class ConvolutionalDecoder(Decoder[ConvolutionalDecoderState]):
    """Gated convolutions over the target, each followed by attention to the source."""

    def __init__(self, config: ConvolutionalDecoderConfig, input_dim: int, encoder: Encoder) -> None:
        super().__init__()
        self.position_embedding = LearnedPositionEmbedding(input_dim, config.max_positions)
        self.dropout = Dropout(config.dropout)
        self.input_proj, self.output_proj = Linear(input_dim, config.dim), Linear(config.dim, input_dim)
        layers = nn.ModuleList(ConvolutionalDecoderLayer(config, input_dim, encoder) for _ in range(config.layers))
        self.layers = cast("list[ConvolutionalDecoderLayer]", layers)
        self.dim, self.conv_buffer_shape = input_dim, (config.kernel_size - 1, config.dim)
        initialize_parameters(self)

    def init_state(self, encoded: EncoderOutput) -> tuple[Memories, ConvolutionalDecoderState]:
        """Projected source for every layer, and a state with zeros as the inputs before the first token.

        The attentions of all L layers send gradients to the encoder: they are scaled by 1 / (2 L), as in the authors'
        code. Section 3.4 excludes the source embeddings, which are part of the values; here they are not excluded.
        """
        attentions = [layer.cross_attention for layer in self.layers]
        keys, values = (scale_gradient(x, 1 / (2 * len(attentions))) for x in (encoded.keys, encoded.values))
        memory = tuple(attention.project_memory(keys, values, encoded.mask) for attention in attentions)
        buffer = encoded.keys.new_zeros(encoded.keys.size(0), *self.conv_buffer_shape)
        states = tuple(attention.initial_state(part) for attention, part in zip(attentions, memory, strict=True))
        position = encoded.mask.new_zeros(encoded.mask.size(0), dtype=torch.long)
        return memory, ConvolutionalDecoderState((buffer,) * len(attentions), states, position)

    def forward(
        self, embedded: Tensor, state: ConvolutionalDecoderState, memory: Memories, *, need_weights: bool = False
    ) -> DecoderOutput:
        """embedded [N, T, E], in one call"""
        position = next_positions(state.position, embedded)
        embedded = self.dropout(embedded + self.position_embedding(position))
        x = self.input_proj(embedded)
        buffers: list[Tensor] = []
        outputs: list[AttentionOutput] = []
        parts = zip(self.layers, state.conv_buffers, memory, state.attention_states, strict=True)
        for layer, buffer, layer_memory, attention in parts:
            x, buffer, output = layer(x, embedded, buffer, layer_memory, attention, position, need_weights=need_weights)
            buffers.append(buffer)
            outputs.append(output)
        states = tuple(output.state for output in outputs)
        new_state = ConvolutionalDecoderState(tuple(buffers), states, state.position + embedded.size(1))
        return DecoderOutput(self.dropout(self.output_proj(x)), new_state, *stack_layers(outputs))


class ConvolutionalDecoderLayer(nn.Module):
    """A causal gated convolution, then attention, with a residual connection."""

    def __init__(self, config: ConvolutionalDecoderConfig, input_dim: int, encoder: Encoder) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(config.dim, 2 * config.dim, config.kernel_size)
        self.query_proj = Linear(config.dim, input_dim)
        self.cross_attention: Attention = config.attention.build(input_dim, encoder.key_dim, encoder.value_dim)
        self.context_proj = Linear(encoder.value_dim, config.dim)
        self.dropout = Dropout(config.dropout)

    def forward(
        self,
        x: Tensor,
        embedded: Tensor,
        buffer: Tensor,
        memory: Memory,
        attention_state: AttentionState,
        position: Tensor,
        *,
        need_weights: bool,
    ) -> tuple[Tensor, Tensor, AttentionOutput]:
        """x [N, T, D], embedded [N, T, E], buffer [N, kernel_size - 1, D] -> x, next buffer, attention output"""
        inputs = torch.cat([buffer, self.dropout(x).to(buffer.dtype)], 1)
        y = F.glu(self.convolution(inputs.transpose(1, 2)), dim=1).transpose(1, 2)
        query = (self.query_proj(y) + embedded) * SQRT_HALF  # eq. 1
        output = self.cross_attention(query, memory, position, attention_state, need_weights=need_weights)
        context = output.context * source_lengths(memory, x.size(0)).to(x.dtype).sqrt()
        y = (y + self.context_proj(context)) * SQRT_HALF
        return (y + x) * SQRT_HALF, inputs[:, x.size(1) :], output


class ConvolutionalDecoderConfig(ConvolutionalConfig, AttentionDecoderBaseConfig):
    """Decoder of convolutional sequence to sequence learning, with attention in every layer."""

    projects_context = False

    attention: Annotated[AttentionConfig, default_score({"kind": "dot"})] = Field({}, validate_default=True)
    """Cross-attention of each layer. Default of `score`: `{kind: dot}`."""

    def build(self, input_dim: int, encoder: Encoder) -> ConvolutionalDecoder:
        """For embedded tokens [N, T, input_dim]. Raises ValueError for attention that does not fit the widths."""
        return ConvolutionalDecoder(self, input_dim, encoder)


def source_lengths(memory: Memory, rows: int) -> Tensor:
    """Number of source tokens of each row, [N, 1, 1].

    The variance of a mean of m vectors is m times too small, so the context is scaled by m * sqrt(1 / m) (section 3.4).
    """
    assert memory.mask is not None, "a source has a mask"
    lengths = memory.mask[:, 0, 0].sum(-1)
    return lengths[:, None].expand(-1, rows // lengths.size(0)).reshape(rows, 1, 1)


def scale_gradient(x: Tensor, factor: float) -> Tensor:
    """x, with its gradient multiplied by `factor`."""
    return x.detach().lerp(x, factor)
