"""Decoders: embedded target tokens and the encoded source to hidden states."""

from typing import Annotated

from pydantic import Field

from seq2attn.config.plugin import Pluggable
from seq2attn.decoders.convolutional import ConvolutionalDecoderConfig
from seq2attn.decoders.fixed_context import FixedContextDecoderConfig
from seq2attn.decoders.recurrent import (
    BahdanauDecoderConfig,
    LuongDecoderConfig,
    RecurrentDecoderConfig,
)
from seq2attn.decoders.ssru import SSRUDecoderConfig
from seq2attn.decoders.transformer import TransformerDecoderConfig

DecoderConfig = Annotated[
    FixedContextDecoderConfig
    | BahdanauDecoderConfig
    | LuongDecoderConfig
    | RecurrentDecoderConfig
    | TransformerDecoderConfig
    | SSRUDecoderConfig
    | ConvolutionalDecoderConfig,
    Field(discriminator="kind"),
    Pluggable("decoder"),
]
