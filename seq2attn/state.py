"""Row-aligned structures: tuples and frozen dataclasses whose every tensor is [rows, ...].

This is the whole of what search knows about a decoder's state. (`torch.utils._pytree` does the same but is private.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from torch import Tensor

Tree = TypeVar("Tree")


def map_tensors(fn: Callable[[Tensor], Tensor], tree: Tree) -> Tree:
    """Rebuild `tree` with `fn` applied to every tensor in it."""
    result: Any
    if tree is None:
        result = None
    elif isinstance(tree, Tensor):
        result = fn(tree)
    elif isinstance(tree, tuple):
        result = tuple(map_tensors(fn, leaf) for leaf in tree)
    elif is_dataclass(tree) and not isinstance(tree, type):
        result = replace(tree, **{f.name: map_tensors(fn, getattr(tree, f.name)) for f in fields(tree)})
    else:
        raise TypeError(
            f"a row-aligned structure holds tensors, tuples and dataclasses, not {type(tree).__name__}"
        )
    return result


def select_rows(tree: Tree, rows: Tensor) -> Tree:
    """Keep `rows` [n] of every tensor, in that order."""
    return map_tensors(lambda x: x.index_select(0, rows), tree)


def repeat_rows(tree: Tree, times: int) -> Tree:
    """Repeat every row `times` times in place: a b -> a a b b."""
    return map_tensors(lambda x: x.repeat_interleave(times, 0), tree)
