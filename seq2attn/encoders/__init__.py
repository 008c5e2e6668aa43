"""Encoders: embedded source tokens to `EncoderOutput`."""

from typing import Annotated

from pydantic import Field

from seq2attn.config.plugin import Pluggable
from seq2attn.encoders.bert import BertEncoderConfig
from seq2attn.encoders.convolutional import ConvolutionalEncoderConfig
from seq2attn.encoders.recurrent import RecurrentEncoderConfig
from seq2attn.encoders.transformer import TransformerEncoderConfig

EncoderConfig = Annotated[
    RecurrentEncoderConfig | TransformerEncoderConfig | ConvolutionalEncoderConfig | BertEncoderConfig,
    Field(discriminator="kind"),
    Pluggable("encoder"),
]
