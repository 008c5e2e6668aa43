"""Encoders: embedded source tokens to `EncoderOutput`."""

from typing import Annotated

from pydantic import Field

from seq2attn.config.plugin import Pluggable
from seq2attn.encoders.base import Encoder, EncoderOutput
from seq2attn.encoders.bert import BertEncoder, BertEncoderConfig
from seq2attn.encoders.convolutional import ConvolutionalEncoder, ConvolutionalEncoderConfig
from seq2attn.encoders.recurrent import RecurrentEncoder, RecurrentEncoderConfig
from seq2attn.encoders.transformer import TransformerEncoder, TransformerEncoderConfig

EncoderConfig = Annotated[
    RecurrentEncoderConfig | TransformerEncoderConfig | ConvolutionalEncoderConfig | BertEncoderConfig,
    Field(discriminator="kind"),
    Pluggable("encoder"),
]

__all__ = [
    "BertEncoder",
    "BertEncoderConfig",
    "ConvolutionalEncoder",
    "ConvolutionalEncoderConfig",
    "Encoder",
    "EncoderConfig",
    "EncoderOutput",
    "RecurrentEncoder",
    "RecurrentEncoderConfig",
    "TransformerEncoder",
    "TransformerEncoderConfig",
]
