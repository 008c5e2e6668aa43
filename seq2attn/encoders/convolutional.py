"""Convolutional encoder (Gehring et al. 2017, section 3.2).

Shapes: B sentences, S source tokens, E width of the embeddings, D width of the convolutions.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from seq2attn.config.base import Config, FieldError, NumLayers
from seq2attn.encoders.base import Encoder, EncoderBaseConfig, EncoderOutput
from seq2attn.nn.initialization import initialize_parameters
from seq2attn.nn.kernels.linear import Linear
from seq2attn.nn.layers import Dropout, LearnedPositionEmbedding, masked_mean
from seq2attn.nn.packing import Sequences

SQRT_HALF = 0.5**0.5
"""Factor of the sum of two terms that keeps their variance (Gehring et al. 2017, section 3.4)."""


class ConvolutionalConfig(Config):
    """Settings of the convolutional encoder and decoder."""

    kind: Literal["convolutional"] = "convolutional"
    dim: PositiveInt = 512
    """Width of the convolutions; the output has the width of the embeddings."""
    layers: NumLayers = 6
    kernel_size: PositiveInt = 3
    """Width of the convolution in tokens."""
    max_positions: PositiveInt = 1024
    """Number of learned positions; later tokens share the last one."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout of the embeddings with positions, of the input of each convolution, and of the decoder's output."""


class ConvolutionalEncoder(Encoder):
    """Gated convolutions; values are the keys plus the embedding of the token."""

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

    def forward(self, embedded: Tensor, sequences: Sequences, *, need_weights: bool = False) -> EncoderOutput:
        """embedded [B, S, E]; padding is set to zero before each convolution"""
        position = torch.arange(embedded.size(1), device=embedded.device)
        embedded = self.dropout(embedded + self.position_embedding(position))
        is_token = sequences.mask.unsqueeze(-1)
        x = self.input_proj(embedded)
        for convolution in self.convolutions:
            inputs = self.dropout(x).masked_fill(~is_token, 0.0)
            x = (F.glu(convolution(inputs.transpose(1, 2)), dim=1).transpose(1, 2) + x) * SQRT_HALF
        keys = self.output_proj(x)
        values = (keys + embedded) * SQRT_HALF
        return EncoderOutput(keys, values, sequences.mask, (masked_mean(values, sequences.mask),))


class ConvolutionalEncoderConfig(ConvolutionalConfig, EncoderBaseConfig):
    """Convolutional encoder."""

    def check_fields(self) -> list[FieldError]:
        """The error of a convolution that is not centered on a token."""
        message = f"must be odd, so that the convolution is centered on a token; not {self.kernel_size}"
        return [] if self.kernel_size % 2 else [FieldError("kernel_size", message)]

    def build(self, input_dim: int) -> ConvolutionalEncoder:
        """For embedded tokens [B, S, input_dim]."""
        return ConvolutionalEncoder(self, input_dim)
