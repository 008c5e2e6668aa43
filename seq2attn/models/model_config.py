"""The model section of a config, and checks of its components together."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, PositiveInt, model_validator

from seq2attn.attention.scores import CosineScoreConfig, DotScoreConfig, GeneralScoreConfig, MultiHeadScoreConfig
from seq2attn.config.base import Config, FieldError, FieldErrors, InputPath
from seq2attn.decoders import AttentionDecoderConfig, DecoderConfig
from seq2attn.decoders.bridge import RecurrentDecoderBaseConfig
from seq2attn.decoders.ssru import SSRUDecoderConfig
from seq2attn.decoders.transformer import TransformerDecoderConfig
from seq2attn.encoders import EncoderConfig
from seq2attn.encoders.bert import BertEncoderConfig
from seq2attn.encoders.convolutional import ConvolutionalEncoderConfig
from seq2attn.encoders.recurrent import RecurrentEncoderConfig
from seq2attn.encoders.transformer import TransformerConfig, TransformerEncoderConfig


def _check_vectors(tie: str, source_vectors: Path | None, target_vectors: Path | None) -> list[FieldError]:
    if tie != "all" or source_vectors is None or target_vectors is None:
        return []
    message = "with `tie: all`, both sides have one table; give only one of `source_vectors` and `target_vectors`"
    return [FieldError("target_vectors", message)]


class EmbeddingsConfig(Config):
    """Embeddings of source and target tokens."""

    rules = (_check_vectors,)

    dim: PositiveInt = 256
    """Dimension of the embeddings, and width of Transformer layers."""
    tie: Literal["none", "output", "all"] = "none"
    """output: the output layer shares the target embeddings (Press and Wolf 2017); all: the source embeddings too."""
    scaled: bool = True
    """Multiplication by the square root of the dimension."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout of the embeddings."""
    word_dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout of whole tokens, whose embedding becomes zero (Sennrich et al. 2016)."""
    frozen_bos: bool = False
    """No gradient for the target embedding of BOS, with which a translation begins: in Marian's models it is zero."""
    source_vectors: InputPath | None = None
    """Pretrained source word vectors: a GloVe or fastText text file."""
    target_vectors: InputPath | None = None
    """Pretrained target word vectors: a GloVe or fastText text file."""


class ModelConfig(Config):
    """Encoder, decoder and embeddings."""

    embeddings: EmbeddingsConfig = EmbeddingsConfig()
    encoder: EncoderConfig
    """The encoder of the source."""
    decoder: DecoderConfig
    """The decoder of the target, with its attention."""

    @model_validator(mode="after")
    def _check_components(self) -> ModelConfig:
        mistakes = [
            *self._check_heads(),
            *self._check_rotary(),
            *self._check_dot(),
            *self._check_tied(),
            *self._check_bert(),
        ]
        if mistakes:
            raise FieldErrors(mistakes)
        return self

    def _check_heads(self) -> list[FieldError]:
        dim, encoder, decoder = self.embeddings.dim, self.encoder, self.decoder
        widths = []
        for side, part in (("encoder", encoder), ("decoder", decoder)):
            if isinstance(part, TransformerConfig) and part.head_dim is None:
                widths.append((f"{side}.heads", part.heads, dim, "the embeddings"))
        if isinstance(decoder, AttentionDecoderConfig):
            score, key = decoder.attention.score, "decoder.attention.score.heads"
            has_head_dim = getattr(score, "head_dim", None) is not None
            heads = 1 if ":" in score.kind or has_head_dim else getattr(score, "heads", 1)  # a plug-in checks its own
            if isinstance(score, DotScoreConfig | GeneralScoreConfig | MultiHeadScoreConfig | CosineScoreConfig):
                widths.append((key, heads, *self._query_width()))
            widths += [(key, heads, *width) for width in self._context_width()]
        return [
            FieldError(key, f"{heads} heads do not divide {dim}, the width of {whose}")
            for key, heads, dim, whose in dict.fromkeys(widths)
            if dim % heads
        ]

    def _check_rotary(self) -> list[FieldError]:
        return [
            FieldError(f"{side}.position_encoding", f"rotary turns pairs, and heads are {width:g} wide")
            for side, part in (("encoder", self.encoder), ("decoder", self.decoder))
            if isinstance(part, TransformerConfig) and part.position_encoding == "rotary"
            if (width := part.head_dim or self.embeddings.dim / part.heads) % 2 == 1
        ]

    def _check_dot(self) -> list[FieldError]:
        decoder = self.decoder
        if not isinstance(decoder, AttentionDecoderConfig) or not isinstance(decoder.attention.score, DotScoreConfig):
            return []
        query_dim, whose = self._query_width()
        key_dim = self._key_width()
        if key_dim is None or key_dim == query_dim:
            return []
        widths = f"`dot` compares {whose}, {query_dim} wide, with an encoder {key_dim} wide"
        return [FieldError("decoder.attention.score", f"{widths}; make them equal, or use `general`")]

    def _check_tied(self) -> list[FieldError]:
        dim, decoder = self.embeddings.dim, self.decoder
        if self.embeddings.tie == "none" or not isinstance(decoder, RecurrentDecoderBaseConfig) or decoder.dim == dim:
            return []
        widths = f"embeddings {dim} wide cannot be the output's weights for a decoder {decoder.dim} wide"
        return [FieldError("embeddings.tie", f"{widths}; make the widths equal, or use `tie: none`")]

    def _check_bert(self) -> list[FieldError]:
        if not isinstance(self.encoder, BertEncoderConfig):
            return []
        message, mistakes = "BERT has its own source embeddings", list[FieldError]()
        if self.embeddings.tie == "all":
            mistakes.append(FieldError("embeddings.tie", f"{message}; use `tie: output` or `none`"))
        if self.embeddings.source_vectors is not None:
            mistakes.append(FieldError("embeddings.source_vectors", f"{message}; leave this out"))
        return mistakes

    def _query_width(self) -> tuple[int, str]:
        if isinstance(self.decoder, RecurrentDecoderBaseConfig):
            return self.decoder.dim, "the decoder"
        return self.embeddings.dim, "the embeddings"

    def _context_width(self) -> list[tuple[int, str]]:
        """Width that several heads divide, and its owner; empty for the encoder of a plug-in."""
        if isinstance(self.decoder, TransformerDecoderConfig | SSRUDecoderConfig):
            return [(self.embeddings.dim, "the embeddings")]
        key_dim = self._key_width()
        return [] if key_dim is None else [(key_dim, "the encoder")]

    def _key_width(self) -> int | None:
        if isinstance(self.encoder, RecurrentEncoderConfig):
            return self.encoder.dim
        if isinstance(self.encoder, BertEncoderConfig):
            return self.encoder.required_architecture.hidden_size
        is_embedding_width = isinstance(self.encoder, TransformerEncoderConfig | ConvolutionalEncoderConfig)
        return self.embeddings.dim if is_embedding_width else None
