"""The programs of a model in the place of the model: our own search runs them as it runs any step function.

Shapes: B sentences, K hypotheses a sentence, N = B*K rows, V target vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn

from seq2attn.data.batches import collate_source
from seq2attn.engines.programs.trace import Tensors, by_sentence
from seq2attn.model.seq2seq import guess
from seq2attn.search.batched import Hypothesis, by_length, translate_ids
from seq2attn.search.config import SearchConfig
from seq2attn.state import Shared
from seq2attn.text.vocabulary import BOS, EOS

Program = Callable[[list[Tensor]], Sequence[Tensor]]
"""Tensors in, tensors out, in the order that `trace` states."""


@dataclass(frozen=True)
class ProgramState(Shared):
    """A decoder's state of which only the tensors are known, and whose they are."""

    tensors: Tensors
    own: tuple[bool, ...]  # which have a row a hypothesis; the others have one a sentence
    width: int = 1  # K

    def _with(
        self, rows: Callable[[Tensor], Tensor], sentences: Callable[[Tensor], Tensor], width: int
    ) -> Self:
        changed = (rows(x) if own else sentences(x) for x, own in zip(self.tensors, self.own, strict=True))
        return type(self)(tuple(changed), self.own, width)

    def map_tensors(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """The same with `fn` applied to every tensor."""
        return self._with(fn, fn, self.width)

    def select_rows(self, rows: Tensor) -> Self:
        """Each row becomes a sentence."""
        sentences = rows // self.width
        return self._with(lambda x: x.index_select(0, rows), lambda x: x.index_select(0, sentences), 1)

    def repeat_rows(self, times: int) -> Self:
        """What is shared stays as it is."""
        return self._with(lambda x: x.repeat_interleave(times, 0), lambda x: x, self.width * times)

    def go_on_from(self, parent: Tensor) -> Self:
        """What is shared stays as it is."""
        first = torch.arange(0, parent.numel(), self.width, device=parent.device)
        rows = (parent + first.unsqueeze(1)).flatten()
        return self._with(lambda x: x.index_select(0, rows), lambda x: x, self.width)

    def select_sentences(self, sentences: Tensor, width: int) -> Self:
        """With all their hypotheses."""
        rows = (sentences.unsqueeze(1) * width + torch.arange(width, device=sentences.device)).flatten()
        return self._with(
            lambda x: x.index_select(0, rows), lambda x: x.index_select(0, sentences), self.width
        )


@dataclass(frozen=True)
class ProgramReader:
    """Reads source and target as a model does, by its programs; an engine."""

    encoding: Program
    stepping: Program
    memories: int  # how many of the tensors that encoding gives are the memory's
    own: tuple[bool, ...]
    output: nn.Linear
    device: torch.device

    def encode(self, words: Tensor, mask: Tensor) -> tuple[Tensors, ProgramState]:
        """ids [B, S], mask bool [B, S] -> what the decoder looks at, and its state before the first word"""
        found = self.encoding([words, mask])
        return tuple(found[: self.memories]), ProgramState(tuple(found[self.memories :]), self.own)

    def step(self, word: Tensor, state: ProgramState, memory: Tensors) -> tuple[Tensor, ProgramState]:
        """Read one word [N]; what `Seq2Seq.step` says of the next [N, V], and the state after."""
        shape = -1, state.width
        given = (word.view(shape), *by_sentence(state.tensors, self.own, shape), *memory)
        hidden, *after = self.stepping([tensor.contiguous() for tensor in given])
        rows = (x.flatten(0, 1) if own else x for x, own in zip(after, self.own, strict=True))
        return guess(self.output, hidden.flatten(0, 1)), ProgramState(tuple(rows), self.own, state.width)

    def translate(
        self, sources: Sequence[Sequence[int]], search: SearchConfig, *, budget: int
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source, best first."""
        return translate_ids(self, sources, search, budget=budget)

    def score(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], *, budget: int) -> list[float]:
        """log p(target, end | source) of each pair of ids without their ends, read word by word."""
        scores = [0.0] * len(pairs)
        for rows in by_length([(*source, *target) for source, target in pairs], budget):
            memory, state = self.encode(*collate_source([pairs[row][0] for row in rows]))
            targets = [(BOS, *pairs[row][1], EOS) for row in rows]
            for t in range(max(map(len, targets)) - 1):
                words = torch.tensor([target[min(t, len(target) - 1)] for target in targets])
                log_probs, state = self.step(words, state, memory)
                for row, target, found in zip(rows, targets, log_probs, strict=True):
                    if t + 1 < len(target):
                        scores[row] += found[target[t + 1]].item()
        return scores
