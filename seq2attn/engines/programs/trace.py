"""`encode` and `step` of any model as two programs of torch.export, which take and give nothing but tensors.

Shapes: B sentences, K hypotheses a sentence, N = B*K rows, S source words, D width of the decoder.

    encode    words [B, S], mask [B, S] -> the memory's tensors, then the state's
    step      words [B, K], the state's tensors, then the memory's -> hidden [B, K, D], then the state's tensors

The output layer, whose product is by far the largest, stays outside: what the compiler makes of it for few rows takes
six times as long as a weight that is laid out for them.

A state is a value, so that its tensors, in the order in which `map_tensors` meets them, are all there is to it. Those
with a row a hypothesis come to `step` as [B, K, ...]: the compiler then knows that a sentence has K of them, which it
cannot tell of any N. Those that the hypotheses of a sentence share come as they are, [B, ...].
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import compress
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

SHAPES: tuple[Shape, Shape, Shape] = ((3, 2, 5), (4, 3, 7), (1, 1, 1))
"""What differs between the first two may be any size; the rest is the model's. Programs are tried at the last two."""


@dataclass(frozen=True)
class Traced:
    """The two programs."""

    encode: ExportedProgram
    step: ExportedProgram
    memories: int  # how many of the tensors that `encode` gives are the memory's
    own: tuple[bool, ...]  # which of the state's have a row a hypothesis, and not one a sentence
    output: nn.Linear  # makes logits of what `step` gives


class Encode(nn.Module):
    """Reads a batch of sources."""

    def __init__(self, model: Seq2Seq, own: Sequence[bool]) -> None:
        super().__init__()
        self.model, self.own = model, own

    def forward(self, words: Tensor, mask: Tensor) -> Tensors:
        """words [B, S], mask [B, S] -> the memory's tensors [B, ...], then the state's of one hypothesis a sentence"""
        memory, state = self.model.encode(words, mask)
        two = leaves(repeat_rows(state, 2))  # the state of one may leave out what hypotheses do not share
        one = (tensor[::2] if own else tensor for tensor, own in zip(two, self.own, strict=True))
        return tuple(tensor.contiguous() for tensor in (*leaves(memory), *one))


class Step(nn.Module):
    """Reads one word of each row."""

    def __init__(self, model: Seq2Seq, own: Sequence[bool], state: Any, memory: Any) -> None:
        """`state` and `memory` say what the tensors stand for."""
        super().__init__()
        self.model, self.own = model, own
        self.state, self.memory = (map_tensors(lambda _: torch.empty(0), tree) for tree in (state, memory))

    def forward(self, words: Tensor, *tensors: Tensor) -> Tensors:
        """words [B, K], the state's, the memory's tensors -> hidden [B, K, D], then the state's tensors"""
        b, k = words.shape
        state, memory = tensors[: len(self.own)], tensors[len(self.own) :]
        for tensor in tensors:  # told before anything is made of them, lest each has a size of its own
            torch._check(tensor.size(0) == b)
        for tensor in compress(state, self.own):
            torch._check(tensor.size(1) == k)
        rows = (x.flatten(0, 1) if own else x for x, own in zip(state, self.own, strict=True))
        decoded = self.model.read(words.view(-1, 1), put(self.state, rows), put(self.memory, memory))
        after = by_sentence(leaves(decoded.state), self.own, (b, k))
        return decoded.hidden[:, -1].unflatten(0, (b, k)), *(tensor.contiguous() for tensor in after)


def trace(model: Seq2Seq) -> Traced:
    """The programs of a model, for any number of sentences, of their words, and of hypotheses.

    Raises RuntimeError when a part does what torch.export cannot follow.
    """
    one, other, least = (Example.of(model, *shape) for shape in SHAPES)
    own, given = one.own, one.step(one.own)
    modules = Encode(model, own), Step(model, own, one.state, one.memory)
    sizes = _sizes(given, other.step(own))
    with torch.no_grad(), quiet():
        encode = export(modules[0], one.source, dynamic_shapes=_sizes(one.source, other.source))
        step = export(modules[1], given, dynamic_shapes=(sizes[0], sizes[1:]))
        for example in (other, least):
            _check(encode, modules[0], example.source)
            _check(step, modules[1], example.step(own))
    return Traced(encode, step, len(leaves(one.memory)), own, model.output)


def _check(program: ExportedProgram, module: nn.Module, given: Tensors) -> None:
    """Try a program at other sizes than those it was traced with.

    What Python made a plain number of, `len(x)` for one, is that number for ever, and torch.export does not tell.
    """
    try:
        found, expected = program.module(check_guards=False)(*given), module(*given)
        equal = all(torch.allclose(x, y, 1e-4, 1e-5) for x, y in zip(found, expected, strict=True))
    except RuntimeError as error:
        raise RuntimeError(f"a size is fixed that must not be: {error}") from error
    if not equal:
        raise RuntimeError(
            "a size is fixed that must not be: a program is right only for the sizes it was shown"
        )


@dataclass(frozen=True)
class Example:
    """What a model is given when it is traced."""

    source: tuple[Tensor, Tensor]  # [B, S], and its mask
    words: Tensor  # [B, K]
    state: Any
    memory: Any

    @classmethod
    def of(cls, model: Seq2Seq, b: int, k: int, s: int) -> Example:
        """In the middle of a search for B sentences."""
        device = next(model.parameters()).device
        source = torch.full((b, s), UNK, device=device)
        mask = torch.arange(s, device=device) < torch.arange(s, s - b, -1, device=device)[:, None]
        words = torch.full((b, k), BOS, device=device)
        with torch.no_grad():
            memory, state = model.encode(source, mask)
            twice = repeat_rows(state, 2 * k)  # for what `Encode` says
            state = put(twice, (x[::2] if x.size(0) == 2 * b * k else x for x in leaves(twice)))
            _, state = model.step(words.flatten(), state, memory)
        return cls((source, mask), words, state, memory)

    @property
    def own(self) -> tuple[bool, ...]:
        """Which tensors of the state have a row a hypothesis; not to be told where K is 1."""
        return tuple(tensor.size(0) == self.words.numel() for tensor in leaves(self.state))

    def step(self, own: Sequence[bool]) -> Tensors:
        """What `Step` is given, where the `own` of the state's tensors have a row a hypothesis."""
        state = by_sentence(leaves(self.state), own, self.words.shape)
        return self.words, *(tensor.contiguous() for tensor in (*state, *leaves(self.memory)))


def _sizes(one: Tensors, other: Tensors) -> tuple[dict[int, Any], ...]:
    """Which sizes of the inputs may be any, in the form that `export` asks for."""
    return tuple(
        {i: Dim.DYNAMIC for i, (m, n) in enumerate(zip(x.shape, y.shape, strict=True)) if m != n}
        for x, y in zip(one, other, strict=True)
    )


@contextmanager
def quiet() -> Iterator[None]:
    """Without what torch says of its own ways while it traces and compiles."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with catch_warnings():
            simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def leaves(tree: Any) -> Tensors:
    """The tensors of a state or a memory, in the order in which `map_tensors` meets them."""
    found = list[Tensor]()

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    map_tensors(note, tree)
    return tuple(found)


def put(tree: Tree, tensors: Iterable[Tensor]) -> Tree:
    """`tree` with other `tensors` in the place of its own."""
    given = iter(tensors)
    return map_tensors(lambda _: next(given), tree)


def by_sentence(tensors: Sequence[Tensor], own: Sequence[bool], shape: Sequence[int]) -> Tensors:
    """The tensors of a state of which the `own` have a row a hypothesis, and these as [B, K, ...]."""
    return tuple(x.unflatten(0, shape) if each else x for x, each in zip(tensors, own, strict=True))
