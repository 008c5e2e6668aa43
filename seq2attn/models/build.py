"""Construction of a model from its config."""

from __future__ import annotations

from torch import nn

from seq2attn.encoders import BertEncoderConfig
from seq2attn.errors import ConfigError
from seq2attn.models.config import EmbeddingsConfig, ModelConfig
from seq2attn.models.seq2seq import Seq2Seq, TokenEmbedding
from seq2attn.nn.initialization import initialize_parameters
from seq2attn.nn.linear import Linear


def build_model(config: ModelConfig, source_size: int, target_size: int) -> Seq2Seq:
    """A model with initial weights, for vocabularies of these sizes.

    Raises ConfigError when components do not fit together.
    """
    embeddings = config.embeddings
    try:
        encoder = config.encoder.build(embeddings.dim)
        decoder = config.decoder.build(embeddings.dim, encoder)
    except ValueError as error:
        raise ConfigError(f"`model`: {error}") from error
    if isinstance(config.encoder, BertEncoderConfig):
        source: nn.Module = config.encoder.build_embedding()
    else:
        source = _token_embedding(embeddings, source_size)
    target = _token_embedding(embeddings, target_size)
    output = Linear(decoder.dim, target_size)
    initialize_parameters(output)
    if embeddings.tie != "none":
        if decoder.dim != embeddings.dim:
            raise ConfigError(f"`model.embeddings.tie`: the decoder is {decoder.dim} wide, not {embeddings.dim}")
        output.weight = target.embedding.weight
    if embeddings.tie == "all" and isinstance(source, TokenEmbedding):
        source.embedding.weight = target.embedding.weight
    return Seq2Seq(source, encoder, target, decoder, output)


def _token_embedding(config: EmbeddingsConfig, size: int) -> TokenEmbedding:
    return TokenEmbedding(size, config.dim, scaled=config.scaled, dropout=config.dropout)
