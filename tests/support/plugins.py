"""A module with third-party components."""

PARTS = """
import torch
from pydantic import PositiveInt
from torch import nn

import seq2attn
from seq2attn.attention.attention import stack_layers
from seq2attn.attention.attention_config import AttentionConfig
from seq2attn.decoders.base import Decoder, DecoderOutput
from seq2attn.encoders.base import Encoder, EncoderOutput


class MyEncoder(Encoder):
    class Config(seq2attn.Config):
        kind: str
        size: PositiveInt = 16

        def build(self, input_dim):
            return MyEncoder(self, input_dim)

    def __init__(self, config, input_dim):
        super().__init__()
        self.layer = nn.Linear(input_dim, config.size)
        self.key_dim = self.value_dim = self.final_dim = config.size

    def forward(self, embedded, sequences, *, need_weights=False):
        states = torch.tanh(self.layer(embedded))
        return EncoderOutput(states, states, sequences.mask, (states[:, :1],))


class MyDecoder(Decoder):
    class Config(seq2attn.Config):
        kind: str
        attention: AttentionConfig

        def build(self, input_dim, encoder):
            return MyDecoder(self, input_dim, encoder)

    def __init__(self, config, input_dim, encoder):
        super().__init__()
        self.attention = config.attention.build(input_dim, encoder.key_dim, encoder.value_dim)
        self.dim = input_dim + encoder.value_dim

    def init_state(self, encoded):
        position = encoded.mask.new_zeros(len(encoded.mask), dtype=torch.long)
        return (self.attention.project_memory(encoded.keys, encoded.values, encoded.mask),), position

    def forward(self, embedded, state, memory, *, need_weights=False):
        position = state[:, None] + torch.arange(embedded.size(1), device=embedded.device)
        output = self.attention(embedded, memory[0], position, need_weights=need_weights)
        hidden = torch.cat([embedded, output.context], -1)
        return DecoderOutput(hidden, state + embedded.size(1), *stack_layers([output]))
"""
