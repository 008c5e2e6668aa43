"""The convolutional encoder: Gehring et al. 2017, section 3.2.

Shapes: B sentences, S source words, E width of the embeddings, D width of the convolutions.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from seq2attn.config.base import Config, FieldError, FieldErrors
from seq2attn.encoders.base import Encoder, EncoderOutput, masked_mean
from seq2attn.nn.dropout import Dropout
from seq2attn.nn.initialization import initialize_parameters
from seq2attn.nn.layers import LearnedPositionEmbedding
from seq2attn.nn.linear import Linear

SQRT_HALF = 0.5**0.5
"""What the sum of two is multiplied by, so that its variance stays (Gehring et al. 2017, section 3.4)."""


class ConvolutionalConfig(Config):
    """What the convolutional encoder and decoder have in common."""

    kind: Literal["convolutional"]
    dim: PositiveInt = 512
    """Width of the convolutions; what leaves them is as wide as the embeddings."""
    layers: PositiveInt = 6
    kernel_size: PositiveInt = 3
    """How many words a convolution sees."""
    max_positions: PositiveInt = 1024
    """How many positions are learned; later words share the last one."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """On the embeddings with their positions and on what each convolution is given."""


class ConvolutionalEncoder(Encoder):
    """Gated convolutions: keys are what was computed, values add the embedding of the word that stands there."""

    def __init__(self, config: ConvolutionalEncoderConfig, input_dim: int) -> None:
        super().__init__()
        self.position_embedding = LearnedPositionEmbedding(input_dim, config.max_positions)
        self.dropout = Dropout(config.dropout)
        self.input_proj, self.output_proj = Linear(input_dim, config.dim), Linear(config.dim, input_dim)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.dim, 2 * config.dim, config.kernel_size, padding=config.kernel_size // 2)
            for _ in range(config.layers)
        )
        self.key_dim = self.value_dim = self.final_dim = input_dim
        initialize_parameters(self)

    def forward(self, words: Tensor, mask: Tensor) -> EncoderOutput:
        """words [B, S, E], mask [B, S]; padding is zero before each convolution, as what lies outside the sentence."""
        position = torch.arange(words.size(1), device=words.device)
        embedded = self.dropout(words + self.position_embedding(position))
        here = mask.unsqueeze(-1)
        x = self.input_proj(embedded)
        for convolution in self.convolutions:
            inputs = self.dropout(x).masked_fill(~here, 0.0)
            x = (F.glu(convolution(inputs.transpose(1, 2)), dim=1).transpose(1, 2) + x) * SQRT_HALF
        keys = self.output_proj(x)
        values = (keys + embedded) * SQRT_HALF
        return EncoderOutput(keys, values, mask, (masked_mean(values, mask),))


class ConvolutionalEncoderConfig(ConvolutionalConfig):
    """The encoder of convolutional sequence to sequence learning."""

    @model_validator(mode="after")
    def _centred(self) -> ConvolutionalEncoderConfig:
        if self.kernel_size % 2 == 0:
            raise FieldErrors(
                [
                    FieldError(
                        "kernel_size",
                        f"must be odd, so that a word stands in the middle; not {self.kernel_size}",
                    )
                ]
            )
        return self

    def build(self, input_dim: int) -> ConvolutionalEncoder:
        """For embedded words [B, S, input_dim]."""
        return ConvolutionalEncoder(self, input_dim)
