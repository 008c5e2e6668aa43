"""Decoders: what has been read and the encoded source in, hidden vectors out."""

from typing import Annotated

from pydantic import Field

from seq2attn.config.plugin import Pluggable
from seq2attn.decoders.base import Decoded, Decoder, every_layer
from seq2attn.decoders.convolutional import ConvolutionalDecoderConfig
from seq2attn.decoders.fixed_context import FixedConfig
from seq2attn.decoders.recurrent import BahdanauConfig, LuongConfig, RecurrentDecoderConfig
from seq2attn.decoders.transformer import TransformerDecoderConfig

DecoderConfig = Annotated[
    FixedConfig
    | BahdanauConfig
    | LuongConfig
    | RecurrentDecoderConfig
    | TransformerDecoderConfig
    | ConvolutionalDecoderConfig,
    Field(discriminator="kind"),
    Pluggable("decoder"),
]

__all__ = [
    "BahdanauConfig",
    "ConvolutionalDecoderConfig",
    "Decoded",
    "Decoder",
    "DecoderConfig",
    "FixedConfig",
    "LuongConfig",
    "RecurrentDecoderConfig",
    "TransformerDecoderConfig",
    "every_layer",
]
