"""The model section of a config, and checks of its components together."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field, PositiveInt

from seq2attn.attention.attention_config import AttentionConfig
from seq2attn.attention.base import Width
from seq2attn.config.base import Config, FieldError, InputPath
from seq2attn.config.plugin import is_plugin
from seq2attn.decoders import DecoderConfig
from seq2attn.encoders import EncoderConfig


class EmbeddingsConfig(Config):
    """Embeddings of source and target tokens."""

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

    def check_fields(self) -> Iterator[FieldError]:
        """The error of two vectors for one table."""
        if self.tie == "all" and self.source_vectors is not None and self.target_vectors is not None:
            message = "both sides share one table; give only one of `source_vectors` and `target_vectors`"
            yield FieldError("target_vectors", f"with `tie: all`, {message}")


class ModelConfig(Config):
    """Encoder, decoder and embeddings."""

    embeddings: EmbeddingsConfig = EmbeddingsConfig()
    encoder: EncoderConfig
    """The encoder of the source."""
    decoder: DecoderConfig
    """The decoder of the target, with its attention."""

    def check_fields(self) -> Iterator[FieldError]:
        """Errors of components that do not fit together."""
        embeddings, encoder, decoder = self.embeddings, self.encoder, self.decoder
        width, key = Width(embeddings.dim, "the embeddings"), None
        if not is_plugin(encoder):
            key = Width(encoder.output_dim(embeddings.dim), "the encoder")
            yield from (mistake.within("encoder") for mistake in encoder.check_widths(width))
            unsupported = encoder.check_embeddings(embeddings.tie, embeddings.source_vectors)
            yield from (mistake.within("embeddings") for mistake in unsupported)
        if not is_plugin(decoder):
            yield from (mistake.within("decoder") for mistake in decoder.check_widths(width, key))
            dim = decoder.output_dim(embeddings.dim)
            if embeddings.tie != "none" and dim != embeddings.dim:
                message = f"embeddings {embeddings.dim} wide cannot be the output's weights for a decoder {dim} wide"
                hint = "make the widths equal, or use `tie: none`"
                yield FieldError("embeddings.tie", f"{message}; {hint}")

    @property
    def encoder_checkpoint(self) -> Path | None:
        """The folder of a pretrained encoder; None for others."""
        return None if is_plugin(self.encoder) else self.encoder.checkpoint

    @property
    def cross_attention(self) -> AttentionConfig | None:
        """The attention of the decoder; None without one, and for the decoder of a plug-in."""
        return None if is_plugin(self.decoder) else self.decoder.cross_attention

    @property
    def attention_shape(self) -> tuple[int, int] | None:
        """Number of layers with attention, and of heads in each; None for plug-ins."""
        if is_plugin(self.decoder):
            return None
        heads = 0 if self.cross_attention is None else self.cross_attention.heads
        return None if heads is None else (self.decoder.num_attentions, heads)
