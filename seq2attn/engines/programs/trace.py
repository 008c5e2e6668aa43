"""`encode` and `step` of any model as two programs of torch.export, which take and give nothing but tensors.

Shapes: B sentences, K hypotheses a sentence, N = B*K rows, S source words, V target vocabulary.

    encode    words [B, S], mask [B, S] -> the tensors of the memory, those of the state
    step      words [B, K], those of the state, of the memory -> scores [B, K, V], the tensors of the state after

A state is a value, so that its tensors, in the order in which `map_tensors` meets them, are all there is to it. Rows
come to `step` as [B, K, ...]: the compiler then knows that a sentence has K of them, which it cannot tell of any N.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import starmap
from logging import ERROR, getLogger
from typing import Any, TypeVar
from warnings import catch_warnings, simplefilter

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

from seq2attn.model import Seq2Seq
from seq2attn.state import map_tensors, repeat_rows
from seq2attn.text.vocabulary import BOS, UNK

Tree = TypeVar("Tree")
Tensors = tuple[Tensor, ...]
Shape = tuple[int, int, int]
"""B, K and S of an example."""

EXAMPLES: tuple[Shape, Shape] = ((3, 2, 5), (4, 3, 7))
"""What differs between them may be any size; what does not is the model's."""


@dataclass(frozen=True)
class Traced:
    """The two programs."""

    encode: ExportedProgram
    step: ExportedProgram
    memories: int  # how many of the tensors that `encode` gives are the memory's


class Encode(nn.Module):
    """Reads a batch of sources."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(self, words: Tensor, mask: Tensor) -> tuple[Tensors, Tensors]:
        """words [B, S], mask [B, S] -> the tensors of the memory, those of the state"""
        memory, state = self.model.encode(words, mask)
        return leaves(memory), leaves(state)


class Step(nn.Module):
    """Reads one word of each row."""

    def __init__(self, model: Seq2Seq, state: Any, memory: Any) -> None:
        """`state` and `memory` say what the tensors stand for."""
        super().__init__()
        self.model = model
        self.state, self.memory = (map_tensors(lambda _: torch.empty(0), tree) for tree in (state, memory))

    def forward(self, words: Tensor, state: Tensors, memory: Tensors) -> tuple[Tensor, Tensors]:
        """words [B, K], each of the state [B, K, ...], of the memory [B, ...] -> scores [B, K, V], the state after"""
        b, k = words.shape
        for tensor in (*state, *memory):  # told before anything is made of them, lest each has a size of its own
            torch._check(tensor.size(0) == b)
        for tensor in state:
            torch._check(tensor.size(1) == k)
        before = put(self.state, [tensor.flatten(0, 1) for tensor in state])
        scores, after = self.model.step(words.flatten(), before, put(self.memory, memory))
        return scores.unflatten(0, (b, k)), tuple(tensor.unflatten(0, (b, k)) for tensor in leaves(after))


def trace(model: Seq2Seq) -> Traced:
    """The programs of a model, for any number of sentences, of their words, and of hypotheses."""
    first, second = (_example(model, *shape) for shape in EXAMPLES)
    source, words, state, memory = first
    step = words, _by_sentence(state, words), leaves(memory)
    other_source, words, state, memory = second
    other_step = words, _by_sentence(state, words), leaves(memory)
    with torch.no_grad(), _quiet():
        return Traced(
            export(Encode(model), source, dynamic_shapes=_sizes(source, other_source)),
            export(Step(model, first[2], first[3]), step, dynamic_shapes=_sizes(step, other_step)),
            len(step[2]),
        )


def _example(model: Seq2Seq, b: int, k: int, s: int) -> tuple[tuple[Tensor, Tensor], Tensor, Any, Any]:
    """A source and its mask, words [B, K], and the state and the memory with which they are read."""
    device = next(model.parameters()).device
    source = torch.full((b, s), UNK, device=device)
    mask = torch.arange(s, device=device) < torch.arange(s, s - b, -1, device=device)[:, None]
    words = torch.full((b, k), BOS, device=device)
    with torch.no_grad():
        memory, state = model.encode(source, mask)
        _, state = model.step(words.flatten(), repeat_rows(state, k), memory)  # now it has read something
    return (source, mask), words, state, memory


def _by_sentence(state: Any, words: Tensor) -> Tensors:
    """The tensors of a state as [B, K, ...]."""
    return tuple(tensor.unflatten(0, words.shape).contiguous() for tensor in leaves(state))


def _sizes(one: Any, other: Any) -> Any:
    """Which sizes of the inputs may be any, in the form that `export` asks for."""
    if isinstance(one, tuple):
        return tuple(starmap(_sizes, zip(one, other, strict=True)))
    return {i: Dim.DYNAMIC for i, (a, b) in enumerate(zip(one.shape, other.shape, strict=True)) if a != b}


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch says of its own ways while it traces."""
    logger = getLogger("torch")
    level = logger.level
    logger.setLevel(ERROR)
    try:
        with catch_warnings():
            simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def leaves(tree: Any) -> Tensors:
    """The tensors of a state or a memory, in the order in which `map_tensors` meets them."""
    found = list[Tensor]()

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    map_tensors(note, tree)
    return tuple(found)


def put(tree: Tree, tensors: Sequence[Tensor]) -> Tree:
    """`tree` with other `tensors` in the place of its own."""
    given = iter(tensors)
    return map_tensors(lambda _: next(given), tree)
