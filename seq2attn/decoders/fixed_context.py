"""Recurrent decoder without attention: a fixed-length context vector (Cho et al. 2014, section 2.2).

Shapes: B sentences, N = B*K rows, T tokens, D width of the decoder, F width of the encoder's final state.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from seq2attn.attention.base import Memories, Memory
from seq2attn.decoders.base import Decoder, DecoderOutput
from seq2attn.decoders.bridge import Bridge, RecurrentDecoderBaseConfig
from seq2attn.encoders.base import Encoder, EncoderOutput
from seq2attn.nn.initialization import initialize_parameters
from seq2attn.nn.kernels.linear import Linear
from seq2attn.nn.kernels.rnn_cells import RNNState
from seq2attn.nn.layers import Dropout
from seq2attn.nn.stacked_rnn import TorchRNN


class FixedContextDecoder(Decoder[RNNState]):
    """One context vector for all steps: the final state of the encoder. The state is that of the RNN."""

    def __init__(self, config: FixedContextDecoderConfig, input_dim: int, final_dim: int) -> None:
        super().__init__()
        self.bridge = Bridge(config.cell, final_dim, config.dim, config.layers)
        self.rnn = TorchRNN(config.cell, input_dim + final_dim, config.dim, config.layers, config.dropout)
        self.readout = Linear(config.dim + final_dim + input_dim, config.dim)
        self.dropout = Dropout(config.dropout)
        self.dim = config.dim
        initialize_parameters(self)

    def init_state(self, encoded: EncoderOutput) -> tuple[Memories, RNNState]:
        """The memory is the context vector: a source of length 1."""
        context = encoded.final_state[0][:, None, -1:]  # [B, 1, 1, F]
        mask = torch.ones_like(context[..., :1], dtype=torch.bool)
        return (Memory(context, context, mask),), self.bridge(encoded.final_state)

    def forward(
        self, embedded: Tensor, state: RNNState, memory: Memories, *, need_weights: bool = False
    ) -> DecoderOutput:
        """embedded [N, T, E]; there are no attention weights"""
        context = memory[0].values[:, 0]  # [B, 1, F]
        beam_size = embedded.size(0) // context.size(0)
        context = context.expand(-1, beam_size, -1).flatten(0, 1).unsqueeze(1).expand(-1, embedded.size(1), -1)
        outputs, state = self.rnn(torch.cat([embedded, context], -1), state)
        hidden = torch.tanh(self.readout(torch.cat([outputs, context, embedded], -1)))
        return DecoderOutput(self.dropout(hidden), state, None)


class FixedContextDecoderConfig(RecurrentDecoderBaseConfig):
    """Recurrent decoder without attention."""

    kind: Literal["fixed-context"] = "fixed-context"

    def build(self, input_dim: int, encoder: Encoder) -> FixedContextDecoder:
        """For embedded tokens [N, T, input_dim]."""
        return FixedContextDecoder(self, input_dim, encoder.final_dim)
