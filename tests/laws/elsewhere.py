"""A decoder that a config names by its path: it never looks at the source."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2attn.attention import Memories
from seq2attn.config.base import Config
from seq2attn.decoders import Decoder, DecoderOutput
from seq2attn.encoders import Encoder, EncoderOutput


class Blind(Decoder[Tensor]):
    """Guesses from the last word."""

    class Config(Config):
        """No options."""

        kind: str

        def build(self, input_dim: int, encoder: Encoder) -> Blind:
            """For embedded words [N, T, input_dim]."""
            return Blind(input_dim)

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def init_state(self, encoded: EncoderOutput) -> tuple[Memories, Tensor]:
        """No memory."""
        return (), torch.zeros(encoded.mask.size(0))

    def forward(self, words: Tensor, state: Tensor, memory: Memories, *, need_weights: bool = False) -> DecoderOutput:
        """words [N, T, dim]"""
        return DecoderOutput(words, state, None)
