"""Row-aligned structures: tuples and frozen dataclasses whose every tensor is [rows, ...].

This is the whole of what search knows about a decoder's state. (`torch.utils._pytree` does the same but is private.)
A part of a state that the hypotheses of a sentence share is a `SharedState`, and says itself what all this means to it.

Shapes: B sentences, K hypotheses a sentence, N = B*K rows, which stand sentence by sentence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

Tree = TypeVar("Tree")


class SharedState(ABC):
    """A part that has no row of its own for each hypothesis. It is a value, as all of a state is."""

    @abstractmethod
    def map_tensors(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """The same with `fn` applied to every tensor."""

    @abstractmethod
    def select_rows(self, rows: Tensor) -> Self:
        """Any `rows` [n] of the N, which then share nothing."""

    @abstractmethod
    def repeat_rows(self, times: int) -> Self:
        """Every row `times` times."""

    @abstractmethod
    def reorder(self, parent: Tensor) -> Self:
        """Each hypothesis goes on from a `parent` [B, K], which is one of its own sentence's."""

    @abstractmethod
    def select_sentences(self, sentences: Tensor, width: int) -> Self:
        """Only `sentences` [b] of the B, with all their K = `width` hypotheses."""


def map_tensors(fn: Callable[[Tensor], Tensor], tree: Tree) -> Tree:
    """Rebuild `tree` with `fn` applied to every tensor in it."""
    return _rebuild(tree, fn, lambda part: part.map_tensors(fn))


def select_rows(tree: Tree, rows: Tensor) -> Tree:
    """Keep `rows` [n] of every tensor, in that order."""
    return _rebuild(tree, lambda x: x.index_select(0, rows), lambda part: part.select_rows(rows))


def repeat_rows(tree: Tree, times: int) -> Tree:
    """Repeat every row `times` times in place: a b -> a a b b."""
    return _rebuild(tree, lambda x: x.repeat_interleave(times, 0), lambda part: part.repeat_rows(times))


def reorder_beams(tree: Tree, parent: Tensor) -> Tree:
    """Let every hypothesis go on from its `parent` [B, K], counted within its sentence."""
    first = torch.arange(0, parent.numel(), parent.size(1), device=parent.device)
    rows = (parent + first.unsqueeze(1)).flatten()
    return _rebuild(tree, lambda x: x.index_select(0, rows), lambda part: part.reorder(parent))


def select_sentences(tree: Tree, sentences: Tensor, width: int) -> Tree:
    """Keep the `width` rows of each of `sentences` [b]."""
    rows = (sentences.unsqueeze(1) * width + torch.arange(width, device=sentences.device)).flatten()
    return _rebuild(
        tree, lambda x: x.index_select(0, rows), lambda part: part.select_sentences(sentences, width)
    )


def _rebuild(tree: Tree, fn: Callable[[Tensor], Tensor], share: Callable[[SharedState], SharedState]) -> Tree:
    result: Any
    if tree is None:
        result = None
    elif isinstance(tree, Tensor):
        result = fn(tree)
    elif isinstance(tree, tuple):
        result = tuple(_rebuild(leaf, fn, share) for leaf in tree)
    elif isinstance(tree, SharedState):
        result = share(tree)
    elif is_dataclass(tree) and not isinstance(tree, type):
        result = replace(tree, **{f.name: _rebuild(getattr(tree, f.name), fn, share) for f in fields(tree)})
    else:
        raise TypeError(
            f"a row-aligned structure holds tensors, tuples and dataclasses, not {type(tree).__name__}"
        )
    return result
