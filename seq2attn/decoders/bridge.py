"""The decoder's initial state from the encoder's final state, and settings that all recurrent decoders share."""

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from seq2attn.config.base import NumLayers
from seq2attn.decoders.base import DecoderBaseConfig
from seq2attn.nn.kernels.rnn_cells import CellType, RNNState


class RecurrentDecoderBaseConfig(DecoderBaseConfig):
    """Settings that all recurrent decoders share."""

    cell: CellType = "gru"
    """Type of the RNN cells."""
    dim: PositiveInt = 512
    """Width of the RNN and of the input of the output projection."""
    layers: NumLayers = 1
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout between layers and before the output projection."""

    def output_dim(self, input_dim: int) -> int:
        """The width of the RNN."""
        return self.dim


class Bridge(nn.Module):
    """The decoder's initial state from the encoder's final state: s_0 = tanh(W h), Bahdanau et al. 2015, A.2.2."""

    def __init__(self, cell: CellType, final_dim: int, dim: int, layers: int) -> None:
        super().__init__()
        self.projections = nn.ModuleList(nn.Linear(final_dim, layers * dim) for _ in range(1 if cell == "gru" else 2))
        self.layers = layers

    def forward(self, final: tuple[Tensor, ...]) -> RNNState:
        """Each [B, encoder layers, F], of which the top layer is used -> each [B, L, D]"""
        tops = [final[min(i, len(final) - 1)][:, -1] for i in range(len(self.projections))]
        return tuple(
            torch.tanh(projection(top)).unflatten(-1, (self.layers, -1))
            for projection, top in zip(self.projections, tops, strict=True)
        )
