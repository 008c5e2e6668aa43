"""Decoding states: nested tuples and frozen dataclasses of tensors [rows, ...], which search repeats and reorders.

`torch.utils._pytree` is similar but private. A part of a state that the hypotheses of a sentence share is a
`SharedState`, which defines these operations itself.

Shapes: B sentences, K hypotheses per sentence, N = B*K rows, sentence by sentence.
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
    """Part of a state without a row for each hypothesis; immutable, as the state is."""

    @abstractmethod
    def map_tensors(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """A state with `fn` applied to every tensor."""

    @abstractmethod
    def select_rows(self, rows: Tensor) -> Self:
        """`rows` [n] of the N, no longer shared."""

    @abstractmethod
    def repeat_rows(self, times: int) -> Self:
        """Each row `times` times."""

    @abstractmethod
    def reorder(self, parent: Tensor) -> Self:
        """The states of the `parent` [B, K] of each hypothesis, counted within its sentence."""

    @abstractmethod
    def select_sentences(self, sentences: Tensor, beam_size: int) -> Self:
        """`sentences` [b] of the B, with their K = `beam_size` hypotheses."""

    @abstractmethod
    def with_fixed_capacity(self, steps: int) -> SharedState:
        """A copy whose shapes stay for `steps` further tokens of each row; it is continued in place."""


def map_tensors(fn: Callable[[Tensor], Tensor], tree: Tree) -> Tree:
    """Rebuild `tree` with `fn` applied to every tensor in it."""
    return _rebuild(tree, fn, lambda shared: shared.map_tensors(fn))


def is_read_only(x: Tensor) -> bool:
    """True for a tensor of inference mode outside of it, where it cannot be written."""
    return x.is_inference() and not torch.is_inference_mode_enabled()


def tensors_of(tree: Any) -> list[Tensor]:
    """All tensors in `tree`, in the order of `map_tensors`."""
    tensors = list[Tensor]()

    def collect(tensor: Tensor) -> Tensor:
        tensors.append(tensor)
        return tensor

    map_tensors(collect, tree)
    return tensors


def select_rows(tree: Tree, rows: Tensor) -> Tree:
    """Keep `rows` [n] of every tensor, in that order."""
    return _rebuild(tree, lambda x: x.index_select(0, rows), lambda shared: shared.select_rows(rows))


def repeat_rows(tree: Tree, times: int) -> Tree:
    """Each row `times` times, one after the other: a b -> a a b b."""
    return _rebuild(tree, lambda x: x.repeat_interleave(times, 0), lambda shared: shared.repeat_rows(times))


def reorder_beams(tree: Tree, parent: Tensor) -> Tree:
    """The states of the `parent` [B, K] of each hypothesis, counted within its sentence."""
    first = torch.arange(0, parent.numel(), parent.size(1), device=parent.device)
    rows = (parent + first.unsqueeze(1)).flatten()
    return _rebuild(tree, lambda x: x.index_select(0, rows), lambda shared: shared.reorder(parent))


def select_sentences(tree: Tree, sentences: Tensor, beam_size: int) -> Tree:
    """The `beam_size` rows of each of `sentences` [b]."""
    rows = (sentences.unsqueeze(1) * beam_size + torch.arange(beam_size, device=sentences.device)).flatten()
    return _rebuild(
        tree, lambda x: x.index_select(0, rows), lambda shared: shared.select_sentences(sentences, beam_size)
    )


def with_fixed_capacity(tree: Tree, steps: int) -> Tree:
    """A copy whose shapes stay for `steps` further tokens of each row; it may be continued once."""
    return _rebuild(tree, lambda x: x, lambda shared: shared.with_fixed_capacity(steps))


def _rebuild(tree: Any, fn: Callable[[Tensor], Tensor], fn_shared: Callable[[SharedState], SharedState]) -> Any:
    if tree is None:
        return None
    if isinstance(tree, Tensor):
        return fn(tree)
    if isinstance(tree, tuple):
        parts = tuple(_rebuild(part, fn, fn_shared) for part in tree)
        return type(tree)(*parts) if hasattr(tree, "_fields") else parts
    if isinstance(tree, SharedState):
        return fn_shared(tree)
    if is_dataclass(tree) and not isinstance(tree, type):
        return replace(tree, **{f.name: _rebuild(getattr(tree, f.name), fn, fn_shared) for f in fields(tree)})
    raise TypeError(f"a decoding state consists of tensors, tuples and dataclasses, not {type(tree).__name__}")
