"""The decoder's contract: one method reads any number of target words, so training and search run the same code.

    hidden, state, weights = decoder(words, state, memory)

reads words [N, T, E] after what `state` has already read: T is the whole target in training, 1 in search, the prefix
in forced decoding. Reading in parts gives what reading at once gives. Every tensor of a state is [N, ...], so search
reorders it with `select_rows` and knows no more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from seq2attn.attention import Memories
from seq2attn.encoders.base import EncoderOutput

State = TypeVar("State")


class DecoderOutput(NamedTuple):
    """What reading gives."""

    hidden: Tensor  # [N, T, D], what the next words are guessed from
    state: Any  # the decoder's own kind of state
    cross_attention: (
        Tensor | None
    )  # [N, L, H, T, S] of L attentions, lowest first, if there are any and they were asked for
    sample_log_prob: Tensor | None = (
        None  # [N, T]: the weighted log-probability of what hard attention drew, in training
    )


class Decoder(nn.Module, ABC, Generic[State]):
    """A pure function of (words, state, memory). Nothing about a sentence is kept on the module."""

    dim: int

    @abstractmethod
    def init_state(self, encoded: EncoderOutput) -> tuple[Memories, State]:
        """The source projected once, one `Memory` for each attention, and the state that has read nothing."""

    @abstractmethod
    def forward(
        self, words: Tensor, state: State, memory: Memories, *, need_weights: bool = False
    ) -> DecoderOutput:
        """words [N, T, E], read after what `state` has read; N is B, or B*K when K hypotheses share a sentence."""


def stack_layers(weights: Iterable[Tensor | None]) -> Tensor | None:
    """What each layer gives: L times [N, H, T, S], or None where it was not asked for -> [N, L, H, T, S]"""
    given = [w for w in weights if w is not None]
    return torch.stack(given, 1) if given else None


def sum_sample_log_probs(drawn: Iterable[Tensor | None]) -> Tensor | None:
    """The weighted log-probability [N, T] of what all layers drew, or None where nothing was drawn."""
    given = [d for d in drawn if d is not None]
    return torch.stack(given).sum(0) if given else None
