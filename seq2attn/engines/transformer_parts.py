"""The parts of a model that an engine for Transformers alone does not have."""

from __future__ import annotations

from seq2attn.attention.alignment import GlobalAlignmentConfig
from seq2attn.attention.scores import MultiHeadScoreConfig
from seq2attn.config.base import FieldError
from seq2attn.decoders.transformer import TransformerDecoderConfig
from seq2attn.encoders.transformer import TransformerEncoderConfig
from seq2attn.models import ModelConfig


def unsupported_parts(engine: str, model: ModelConfig) -> list[FieldError]:
    """Parts that are not those of the Transformer of Vaswani et al. 2017, with their config keys."""
    encoder, decoder = model.encoder, model.decoder
    mistakes = []
    if not isinstance(encoder, TransformerEncoderConfig):
        mistakes.append(no_option(engine, "encoder.kind", f"encoder `{encoder.kind}`, only `transformer`"))
    if not isinstance(decoder, TransformerDecoderConfig):
        return [*mistakes, no_option(engine, "decoder.kind", f"decoder `{decoder.kind}`, only `transformer`")]
    score, align = decoder.attention.score, decoder.attention.align
    if not isinstance(score, MultiHeadScoreConfig):
        message = f"score `{score.kind}`, only `multi-head`"
        mistakes.append(no_option(engine, "decoder.attention.score.kind", message))
    elif score.heads != decoder.heads:
        message = f"decoder of {decoder.heads} heads with cross-attention of another number"
        mistakes.append(no_option(engine, "decoder.attention.score.heads", message))
    if not isinstance(align, GlobalAlignmentConfig):
        message = f"alignment `{align.kind}`, only `global`"
        mistakes.append(no_option(engine, "decoder.attention.align.kind", message))
    return mistakes


def no_option(engine: str, key: str, option: str) -> FieldError:
    """The message that an engine does not have an option, for a key of the `model` section."""
    return FieldError(f"model.{key}", f"{engine} has no {option}")
