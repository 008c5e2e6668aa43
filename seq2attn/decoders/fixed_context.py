"""A recurrent decoder without attention: one vector stands for the whole source (Cho et al. 2014, section 2.2).

Shapes: B sentences, N = B*K rows, T words, D width of the decoder, F width of the encoder's last state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from seq2attn.attention import Memories, Memory
from seq2attn.decoders.base import Decoder, DecoderOutput
from seq2attn.encoders.base import Encoder, EncoderOutput
from seq2attn.nn.dropout import Dropout
from seq2attn.nn.initialization import initialize_parameters
from seq2attn.nn.linear import Linear
from seq2attn.nn.rnn import RNNState
from seq2attn.nn.rnn.stacked import Bridge, RecurrentDecoderBaseConfig, TorchRNN


@dataclass(frozen=True)
class FixedContextState:
    """Where the decoder stands."""

    rnn_state: RNNState  # (h,) or (h, c), each [N, L, D]


class FixedContextDecoder(Decoder[FixedContextState]):
    """One vector stands for the whole source at every step."""

    def __init__(self, config: FixedContextDecoderConfig, input_dim: int, final_dim: int) -> None:
        super().__init__()
        self.bridge = Bridge(config.cell, final_dim, config.dim, config.layers)
        self.rnn = TorchRNN(config.cell, input_dim + final_dim, config.dim, config.layers, config.dropout)
        self.readout = Linear(config.dim + final_dim + input_dim, config.dim)
        self.dropout = Dropout(config.dropout)
        self.dim = config.dim
        initialize_parameters(self)

    def init_state(self, encoded: EncoderOutput) -> tuple[Memories, FixedContextState]:
        """The memory is the one vector: a source of a single word that every step looks at."""
        summary = encoded.final_state[0][:, None, -1:]  # [B, 1, 1, F]
        mask = torch.ones_like(summary[..., :1], dtype=torch.bool)
        return (Memory(summary, summary, mask),), FixedContextState(self.bridge(encoded.final_state))

    def forward(
        self, words: Tensor, state: FixedContextState, memory: Memories, *, need_weights: bool = False
    ) -> DecoderOutput:
        """words [N, T, E]; there are no weights."""
        summary = memory[0].values[:, 0]  # [B, 1, F]
        summary = summary.repeat_interleave(words.size(0) // summary.size(0), 0).expand(-1, words.size(1), -1)
        outputs, cells = self.rnn(torch.cat([words, summary], -1), state.rnn_state)
        hidden = torch.tanh(self.readout(torch.cat([outputs, summary, words], -1)))
        return DecoderOutput(self.dropout(hidden), FixedContextState(cells), None)


class FixedContextDecoderConfig(RecurrentDecoderBaseConfig):
    """A recurrent decoder without attention."""

    kind: Literal["fixed-context"]

    def build(self, input_dim: int, encoder: Encoder) -> FixedContextDecoder:
        """For embedded words [N, T, input_dim]."""
        return FixedContextDecoder(self, input_dim, encoder.final_dim)
