"""What scores and alignments are told, and what they may remember between two words.

Shapes: B sentences, N = B*K rows (K hypotheses a sentence), H heads, T queries, S keys.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True)
class QueryInfo:
    """Who asks: what a score or an alignment may know beside what was made of queries and keys."""

    query: Tensor  # [B, T, Dq], as it came
    position: Tensor  # [B, T]: how many words stand before it
    state: Tensor | None = None  # [B, H, T, S]: what the part itself remembers of where was looked before
    mask: Tensor | None = None  # [B, 1, 1 or T, S]: which keys may be looked at, unless it is all of them


class AttentionComponent(nn.Module):
    """A score or an alignment. Most mind nothing but the query; those that do say what they remember."""

    def initial_state(self, nowhere: Tensor) -> Tensor | None:
        """Zeros [N, H, S] -> what is remembered before the first word, [N, H, S]; None of one that minds nothing."""
        return None

    def update_state(self, seen: Tensor, weights: Tensor) -> Tensor:
        """What was remembered and the weights of the word that was asked, each [N, H, S] -> what is remembered now."""
        raise NotImplementedError(f"{type(self).__name__} remembers nothing")


AttentionState = tuple[Tensor | None, Tensor | None]
"""What the score and the alignment of an attention remember, each [N, H, S]: a part of a decoder's state."""

NO_STATE: AttentionState = (None, None)
