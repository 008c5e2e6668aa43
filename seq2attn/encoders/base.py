"""Base class of encoders: a batch of embedded tokens to `EncoderOutput`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from seq2attn.attention.base import Width
from seq2attn.config.base import Config, FieldError
from seq2attn.nn.packing import SequenceLayout, Sequences
from seq2attn.tokenizers.base import Tokenizer


@dataclass(frozen=True)
class EncoderOutput:
    """Output of an encoder. `keys` and `values` are the same tensor in most encoders."""

    keys: Tensor  # [B, S, Dk]
    values: Tensor  # [B, S, Dv]
    mask: Tensor  # [B, S] bool, True on tokens
    final_state: tuple[Tensor, ...]  # (h,) or (h, c), each [B, layers, F]; other encoders: the mean over tokens
    layout: SequenceLayout | None = None  # of packed sentences: B is 1, and there is no `final_state`
    weights: Tensor | None = None  # [B, L, H, S, S] of the self-attention of all layers, if needed and there is any


class EncoderBaseConfig(Config):
    """Base class of the configs of encoders."""

    @property
    def supports_padding_free(self) -> bool:
        """True for an encoder of sentences that are packed in one row."""
        return False

    @property
    def checkpoint(self) -> Path | None:
        """The folder of a pretrained encoder, whose tokenizer the source needs; None for others."""
        return None

    def output_dim(self, input_dim: int) -> int:
        """Width of the output for embedded tokens [B, S, input_dim]."""
        return input_dim

    def check_widths(self, embeddings: Width) -> list[FieldError]:
        """Errors of widths that do not fit."""
        return []

    def check_embeddings(self, tie: str, source_vectors: Path | None) -> Iterable[FieldError]:
        """Errors of `model.embeddings`."""
        return ()

    def build_embedding(self) -> nn.Module | None:
        """The embedding of the source; None: that of `model.embeddings`."""
        return None

    def load_checkpoint(self, embedding: nn.Module, encoder: Encoder, tokenizer: Tokenizer) -> None:
        """Load the weights in `checkpoint`. Raises DataError if they do not fit."""


class Encoder(nn.Module, ABC):
    """Embedded tokens [B, S, E] to `EncoderOutput`, which does not depend on padding."""

    key_dim: int
    value_dim: int
    final_dim: int

    @abstractmethod
    def forward(self, embedded: Tensor, sequences: Sequences, *, need_weights: bool = False) -> EncoderOutput:
        """embedded [B, S, E]; `need_weights` has no effect on encoders without self-attention"""
