"""The convolutional decoder with multi-step attention: Gehring et al. 2017, sections 3.2 and 3.3.

Shapes: B sentences, N = B*K rows, T words, E width of the embeddings, D width of the convolutions, V of the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.attention import Attention, AttentionOutput, AttentionState, Memories, Memory
from seq2attn.attention.config import AttentionConfig
from seq2attn.attention.scores import DotScoreConfig
from seq2attn.decoders.base import Decoder, DecoderOutput, stack_layers, sum_sample_log_probs
from seq2attn.encoders.base import Encoder, EncoderOutput
from seq2attn.encoders.convolutional import SQRT_HALF, ConvolutionalConfig
from seq2attn.nn.dropout import Dropout
from seq2attn.nn.initialization import initialize_parameters
from seq2attn.nn.layers import LearnedPositionEmbedding
from seq2attn.nn.linear import Linear


@dataclass(frozen=True)
class ConvolutionalDecoderState:
    """What the next convolutions still see, so that one step costs one step."""

    conv_buffers: tuple[Tensor, ...]  # for each layer its last width - 1 inputs [N, width - 1, D]
    attention_states: tuple[AttentionState, ...]  # what each layer's attention to the source remembers
    position: Tensor  # [N]: words read


class ConvolutionalDecoder(Decoder[ConvolutionalDecoderState]):
    """Gated convolutions over what has been read, each followed by an attention to the source."""

    def __init__(self, config: ConvolutionalDecoderConfig, input_dim: int, encoder: Encoder) -> None:
        super().__init__()
        self.position_embedding = LearnedPositionEmbedding(input_dim, config.max_positions)
        self.dropout = Dropout(config.dropout)
        self.input_proj, self.output_proj = Linear(input_dim, config.dim), Linear(config.dim, input_dim)
        self.layers = nn.ModuleList(ConvolutionalDecoderLayer(config, input_dim, encoder) for _ in range(config.layers))
        self.dim = input_dim
        initialize_parameters(self)

    def init_state(self, encoded: EncoderOutput) -> tuple[Memories, ConvolutionalDecoderState]:
        """The source projected for every layer; before the first word there are zeros, as outside a sentence.

        As many attentions send gradients to the encoder as there are layers: each sends its share (section 3.4).
        """
        layers = self._layers()
        keys, values = (scale_gradient(x, 1 / (2 * len(layers))) for x in (encoded.keys, encoded.values))
        memory = tuple(layer.cross_attention.project_memory(keys, values, encoded.mask) for layer in layers)
        past = tuple(layer.empty_buffer(encoded.keys) for layer in layers)
        seen = tuple(layer.cross_attention.initial_state(source) for layer, source in zip(layers, memory, strict=True))
        position = encoded.mask.new_zeros(encoded.mask.size(0), dtype=torch.long)
        return memory, ConvolutionalDecoderState(past, seen, position)

    def forward(
        self, words: Tensor, state: ConvolutionalDecoderState, memory: Memories, *, need_weights: bool = False
    ) -> DecoderOutput:
        """words [N, T, E], all at once."""
        position = state.position[:, None] + torch.arange(words.size(1), device=words.device)
        embedded = self.dropout(words + self.position_embedding(position))
        x = self.input_proj(embedded)
        past: list[Tensor] = []
        asked: list[AttentionOutput] = []
        for layer, before, source, seen in zip(
            self._layers(), state.conv_buffers, memory, state.attention_states, strict=True
        ):
            x, after, told = layer(x, embedded, before, source, seen, position, need_weights=need_weights)
            past.append(after)
            asked.append(told)
        after_all = ConvolutionalDecoderState(
            tuple(past), tuple(told.state for told in asked), state.position + words.size(1)
        )
        weights, drawn = (
            stack_layers(told.weights for told in asked),
            sum_sample_log_probs(told.sample_log_prob for told in asked),
        )
        return DecoderOutput(self.dropout(self.output_proj(x)), after_all, weights, drawn)

    def _layers(self) -> list[ConvolutionalDecoderLayer]:
        return cast("list[ConvolutionalDecoderLayer]", list(self.layers))


class ConvolutionalDecoderLayer(nn.Module):
    """A causal convolution with a gate, then attention, in a residual branch."""

    def __init__(self, config: ConvolutionalDecoderConfig, input_dim: int, encoder: Encoder) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(config.dim, 2 * config.dim, config.kernel_size)
        self.query_proj = Linear(config.dim, input_dim)
        self.cross_attention: Attention = config.attention.build(input_dim, encoder.key_dim, encoder.value_dim)
        self.context_proj = Linear(encoder.value_dim, config.dim)
        self.dropout = Dropout(config.dropout)
        self.buffer_width, self.dim = config.kernel_size - 1, config.dim

    def empty_buffer(self, like: Tensor) -> Tensor:
        """The inputs before the first word: zeros [B, width - 1, D]."""
        return like.new_zeros(like.size(0), self.buffer_width, self.dim)

    def forward(
        self,
        x: Tensor,
        embedded: Tensor,
        past: Tensor,
        memory: Memory,
        seen: AttentionState,
        position: Tensor,
        *,
        need_weights: bool,
    ) -> tuple[Tensor, Tensor, AttentionOutput]:
        """x [N, T, D], embedded [N, T, E], past [N, width - 1, D] -> [N, T, D], the new past, what attention gave"""
        inputs = torch.cat([past, self.dropout(x).to(past.dtype)], 1)
        y = F.glu(self.convolution(inputs.transpose(1, 2)), dim=1).transpose(1, 2)
        query = (self.query_proj(y) + embedded) * SQRT_HALF  # eq. 1
        asked = self.cross_attention(query, memory, position, seen, need_weights=need_weights)
        context = asked.context * source_lengths(memory, x.size(0)).to(x.dtype).sqrt()
        y = (y + self.context_proj(context)) * SQRT_HALF
        return (y + x) * SQRT_HALF, inputs[:, inputs.size(1) - self.buffer_width :], asked


class ConvolutionalDecoderConfig(ConvolutionalConfig):
    """The decoder of convolutional sequence to sequence learning, with an attention in every layer."""

    attention: AttentionConfig = AttentionConfig(score=DotScoreConfig(kind="dot"))
    """Each layer's attention to the source."""

    def build(self, input_dim: int, encoder: Encoder) -> ConvolutionalDecoder:
        """For embedded words [N, T, input_dim]. Raises ValueError when the attention cannot compare them."""
        return ConvolutionalDecoder(self, input_dim, encoder)


def source_lengths(memory: Memory, rows: int) -> Tensor:
    """How many words each row's source has, [N, 1, 1].

    A mean of m vectors has a variance m times too small: m * sqrt(1 / m) mends it (section 3.4).
    """
    assert memory.mask is not None  # sources come with one
    lengths = memory.mask[:, 0, 0].sum(-1)
    return lengths.repeat_interleave(rows // lengths.size(0))[:, None, None]


def scale_gradient(x: Tensor, share: float) -> Tensor:
    """x itself, which hands back only a share of its gradient."""
    return x * share + x.detach() * (1 - share)
