"""Base class of scores and alignment functions, what they get, and the state that they keep between target tokens.

Shapes: B sentences, N = B*K rows (K hypotheses a sentence), H heads, G heads of keys, T queries, S keys.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor, nn

from seq2attn.config.base import Config, FieldError
from seq2attn.nn.packing import SequenceLayout


@dataclass(frozen=True)
class Memory:
    """Projected keys and values of a batch, and their mask."""

    keys: Tensor  # [B, G, S, d]: G heads of keys and values, usually H
    values: Tensor  # [B, G, S, v]
    mask: Tensor | None  # [B, 1, 1, S] or [B or 1, 1, T, S] bool; None: no mask
    layout: SequenceLayout | None = None  # of sentences that are packed in one row (padding-free)
    bias: Tensor | None = None  # [B or 1, H, T, S], added to the scores; minus infinity where the mask is False


Memories = tuple[Memory, ...]
"""One `Memory` for each attention of a decoder."""


@dataclass(frozen=True)
class QueryInfo:
    """The queries of a call beyond their projections."""

    query: Tensor  # [B, T, Dq], not projected
    position: Tensor  # [B, T]: number of target tokens before each query
    mask: Tensor | None = None  # [B or 1, 1, 1 or T, S]: True where a key may be attended to; None: everywhere
    score_state: Tensor | None = None  # [B, H, T, S]: state of the score, if it has one
    alignment_state: Tensor | None = None  # [B, H, T, S]: state of the alignment function, if it has one


class AttentionComponent(nn.Module):
    """A score or an alignment function. Most are stateless; the others define an initial state and its update."""

    has_state: ClassVar[bool] = False

    def initial_state(self, zeros: Tensor) -> Tensor:
        """Zeros [N, H, S] -> the state before the first target token [N, H, S]."""
        raise NotImplementedError(f"{type(self).__name__} has no state")

    def update_state(self, state: Tensor, weights: Tensor) -> Tensor:
        """State and attention weights of one target token, each [N, H, S] -> the next state [N, H, S]."""
        raise NotImplementedError(f"{type(self).__name__} has no state")


AttentionState = tuple[Tensor | None, ...]
"""States of the score and of the alignment function, each [N, H, S]: a part of the decoder's state."""

NO_STATE: AttentionState = (None, None)


class Width(NamedTuple):
    """The width of a query, of keys or of a context, and whose it is."""

    dim: int
    owner: str

    def check_heads(self, field: str, heads: int) -> list[FieldError]:
        """The error at `field` of heads that do not divide the width."""
        message = f"{heads} heads do not divide {self.dim}, the width of {self.owner}"
        return [FieldError(field, message)] if self.dim % heads else []


class ScoreConfig(Config):
    """Base class of the configs of scores. All have `heads`, which divide the width of the context."""

    heads_divide_query: ClassVar[bool] = False
    """Whether the heads divide the width of the query, too."""
    needs_equal_widths: ClassVar[bool] = False
    """Whether queries and keys have the same width."""

    @property
    def is_scaled_dot(self) -> bool:
        """True for scaled dot products, which have fused kernels."""
        return False

    @property
    def has_own_widths(self) -> bool:
        """True if the heads have a width of their own."""
        return False
