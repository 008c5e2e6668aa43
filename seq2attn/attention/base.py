"""Base class of scores and alignment functions, and the state that they keep between target tokens.

Shapes: B sentences, N = B*K rows (K hypotheses a sentence), H heads, T queries, S keys.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True)
class QueryInfo:
    """Information about the queries beyond their projections."""

    query: Tensor  # [B, T, Dq], not projected
    position: Tensor  # [B, T]: number of target tokens before each query
    state: Tensor | None = None  # [B, H, T, S]: state of the score or the alignment function
    mask: Tensor | None = None  # [B, 1, 1 or T, S]: True where a key may be attended to; None: everywhere


class AttentionComponent(nn.Module):
    """A score or an alignment function. Most are stateless; the others define an initial state and its update."""

    @property
    def has_state(self) -> bool:
        """True if the class defines an initial state."""
        return type(self).initial_state is not AttentionComponent.initial_state

    def initial_state(self, zeros: Tensor) -> Tensor | None:
        """Zeros [N, H, S] -> the state before the first target token [N, H, S]; None if there is no state."""
        return None

    def update_state(self, state: Tensor, weights: Tensor) -> Tensor:
        """State and attention weights of one target token, each [N, H, S] -> the next state [N, H, S]."""
        raise NotImplementedError(f"{type(self).__name__} has no state")


AttentionState = tuple[Tensor | None, Tensor | None]
"""States of the score and of the alignment function, each [N, H, S]: a part of the decoder's state."""

NO_STATE: AttentionState = (None, None)
