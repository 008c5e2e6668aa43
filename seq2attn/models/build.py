"""Config to model."""

from __future__ import annotations

from torch import nn

from seq2attn.encoders import BertEncoderConfig
from seq2attn.errors import ConfigError
from seq2attn.models.config import ModelConfig
from seq2attn.models.seq2seq import Seq2Seq, TokenEmbedding
from seq2attn.nn.initialization import initialize_parameters
from seq2attn.nn.linear import Linear


def build_model(config: ModelConfig, source_size: int, target_size: int) -> Seq2Seq:
    """A model with initial weights, for vocabularies of the given sizes.

    Raises ConfigError when components do not fit together.
    """
    shared = config.embeddings
    try:
        encoder = config.encoder.build(shared.dim)
        decoder = config.decoder.build(shared.dim, encoder)
    except ValueError as error:
        raise ConfigError(f"`model`: {error}") from error
    source = _source(config, source_size)
    target = TokenEmbedding(target_size, shared.dim, scaled=shared.scaled, dropout=shared.dropout)
    output = Linear(decoder.dim, target_size)
    initialize_parameters(output)
    if shared.tie != "none":
        if decoder.dim != shared.dim:
            raise ConfigError(f"`model.embeddings.tie`: the decoder is {decoder.dim} wide, not {shared.dim}")
        output.weight = target.embedding.weight
    if shared.tie == "all" and isinstance(source, TokenEmbedding):
        source.embedding.weight = target.embedding.weight
    return Seq2Seq(source, encoder, target, decoder, output)


def _source(config: ModelConfig, size: int) -> nn.Module:
    """Source embedding; that of the encoder if it has one."""
    if isinstance(config.encoder, BertEncoderConfig):
        return config.encoder.build_embedding()
    shared = config.embeddings
    return TokenEmbedding(size, shared.dim, scaled=shared.scaled, dropout=shared.dropout)
