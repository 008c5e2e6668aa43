"""A recurrent decoder without attention: one vector stands for the whole source (Cho et al. 2014, section 2.2).

Shapes: B sentences, N = B*K rows, T words, D width of the decoder, F width of the encoder's last state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from seq2attn.attention import Memories, Memory
from seq2attn.decoders.base import Decoded, Decoder
from seq2attn.encoders.base import Encoded, Encoder
from seq2attn.nn.dropout import Dropout
from seq2attn.nn.initialization import initialise
from seq2attn.nn.linear import Linear
from seq2attn.nn.rnn import Cells
from seq2attn.nn.rnn.stacked import Bridge, RecurrentConfig, WholeCells


@dataclass(frozen=True)
class FixedState:
    """Where the decoder stands."""

    cells: Cells  # (h,) or (h, c), each [N, L, D]


class FixedDecoder(Decoder[FixedState]):
    """One vector stands for the whole source at every step."""

    def __init__(self, config: FixedConfig, input_dim: int, final_dim: int) -> None:
        super().__init__()
        self.bridge = Bridge(config.cell, final_dim, config.dim, config.layers)
        self.cells = WholeCells(config.cell, input_dim + final_dim, config.dim, config.layers, config.dropout)
        self.mix = Linear(config.dim + final_dim + input_dim, config.dim)
        self.dropout = Dropout(config.dropout)
        self.dim = config.dim
        initialise(self)

    def prepare(self, encoded: Encoded) -> tuple[Memories, FixedState]:
        """The memory is the one vector: a source of a single word that every step looks at."""
        summary = encoded.final[0][:, None, -1:]  # [B, 1, 1, F]
        mask = torch.ones_like(summary[..., :1], dtype=torch.bool)
        return (Memory(summary, summary, mask),), FixedState(self.bridge(encoded.final))

    def forward(
        self, words: Tensor, state: FixedState, memory: Memories, *, need_weights: bool = False
    ) -> Decoded:
        """words [N, T, E]; there are no weights."""
        summary = memory[0].values[:, 0]  # [B, 1, F]
        summary = summary.repeat_interleave(words.size(0) // summary.size(0), 0).expand(-1, words.size(1), -1)
        outputs, cells = self.cells(torch.cat([words, summary], -1), state.cells)
        hidden = torch.tanh(self.mix(torch.cat([outputs, summary, words], -1)))
        return Decoded(self.dropout(hidden), FixedState(cells), None)


class FixedConfig(RecurrentConfig):
    """A recurrent decoder without attention."""

    kind: Literal["fixed"]

    def build(self, input_dim: int, encoder: Encoder) -> FixedDecoder:
        """For embedded words [N, T, input_dim]."""
        return FixedDecoder(self, input_dim, encoder.final_dim)
