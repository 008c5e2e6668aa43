"""A plug-in decoder without attention to the source."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2attn.attention.attention import Memories
from seq2attn.config.base import Config
from seq2attn.decoders.base import Decoder, DecoderOutput
from seq2attn.encoders.base import Encoder, EncoderOutput


class Blind(Decoder[Tensor]):
    """Predicts from the last token."""

    class Config(Config):
        """No options."""

        kind: str

        def build(self, input_dim: int, encoder: Encoder) -> Blind:
            """For embedded tokens [N, T, input_dim]."""
            return Blind(input_dim)

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def init_state(self, encoded: EncoderOutput) -> tuple[Memories, Tensor]:
        """No memory."""
        return (), torch.zeros(encoded.mask.size(0))

    def forward(
        self, embedded: Tensor, state: Tensor, memory: Memories, *, need_weights: bool = False
    ) -> DecoderOutput:
        """embedded [N, T, dim]"""
        return DecoderOutput(embedded, state, None)
