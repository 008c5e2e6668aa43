"""Base class of decoders: one method decodes any number of target tokens, so training and search run the same code.

    output = decoder(embedded, state, memory)

decodes embedded target tokens [N, T, E] after those in `state`: T is the whole target in training (teacher forcing), 1
in search, the prefix in forced decoding. Decoding in several calls gives the same output as in one call. Every tensor
of a state is [N, ...], or in a part that the hypotheses of a sentence share (`SharedState`). So search can repeat,
reorder and select rows, and needs to know no more of a state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from torch import Tensor, nn

from seq2attn.attention.attention_config import AttentionConfig
from seq2attn.attention.base import Memories, Width
from seq2attn.config.base import Config, FieldError
from seq2attn.encoders.base import EncoderOutput

State = TypeVar("State")


class DecoderOutput(NamedTuple):
    """Output of a decoder for T target tokens."""

    hidden: Tensor  # [N, T, D], the input of the output projection
    state: Any  # after the last token; its type depends on the decoder
    cross_attention: Tensor | None  # [N, L, H, T, S], lowest layer first, if `need_weights`
    sample_log_prob: Tensor | None = None  # [N, T]: weighted log-probability of hard attention's samples
    self_attention: Tensor | None = None  # [N, L, H, T, T], if `need_weights`; see its decoder


class DecoderBaseConfig(Config):
    """Base class of the configs of decoders."""

    @property
    def supports_padding_free(self) -> bool:
        """True for a decoder of sentences that are packed in one row."""
        return False

    @property
    def skips_layers(self) -> bool:
        """True if training skips layers at random."""
        return False

    @property
    def cross_attention(self) -> AttentionConfig | None:
        """The attention to the source; None without one."""
        return None

    @property
    def num_attentions(self) -> int:
        """Number of layers with attention to the source."""
        return 0

    def output_dim(self, input_dim: int) -> int:
        """Width of the output for embedded tokens [N, T, input_dim]."""
        return input_dim

    def check_widths(self, query: Width, key: Width | None) -> list[FieldError]:
        """Errors of widths that do not fit; the `query` is as wide as the embeddings. None: that of a plug-in."""
        return []


class AttentionDecoderBaseConfig(DecoderBaseConfig):
    """Base class of the configs of decoders with attention, in each layer."""

    if TYPE_CHECKING:  # fields of the derived classes, whose order is that of saved configs
        attention: AttentionConfig
        layers: int

    projects_context: ClassVar[bool] = True
    """Whether contexts are projected to the width of the queries; otherwise they have that of the encoder."""

    @property
    def cross_attention(self) -> AttentionConfig:
        """The attention to the source."""
        return self.attention

    @property
    def num_attentions(self) -> int:
        """One in each layer."""
        return self.layers

    def check_widths(self, query: Width, key: Width | None) -> list[FieldError]:
        """Errors of widths that do not fit; None: that of a plug-in."""
        context = query if self.projects_context else key
        return [mistake.within("attention") for mistake in self.attention.check_widths(query, key, context)]


class Decoder(nn.Module, ABC, Generic[State]):
    """A pure function of (embedded tokens, state, memory): the module keeps nothing about a sentence."""

    dim: int

    @abstractmethod
    def init_state(self, encoded: EncoderOutput) -> tuple[Memories, State]:
        """Projected source, one `Memory` for each attention, and the state before the first target token."""

    @abstractmethod
    def forward(self, embedded: Tensor, state: State, memory: Memories, *, need_weights: bool = False) -> DecoderOutput:
        """Decode embedded tokens [N, T, E] after those in `state`; N is B, or B*K for K hypotheses a sentence."""
