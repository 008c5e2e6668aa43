"""A trained model that is examined, as search has it and as PyTorch alone computes it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from seq2attn.attention.align import LocalPredictive
from seq2attn.attention.hard import Hard
from seq2attn.attention.monotonic import Monotonic
from seq2attn.data.batches import collate_source
from seq2attn.doctor.sentences import Sentence
from seq2attn.engines.native import Native
from seq2attn.model import Seq2Seq
from seq2attn.run import Run
from seq2attn.search.batched import by_length
from seq2attn.search.config import GreedyConfig, SampleConfig, SearchConfig
from seq2attn.text.vocabulary import BOS, PAD

BUDGET = 1024
"""Source tokens that are read together."""
CHOOSING = (Hard, Monotonic, LocalPredictive)
"""Alignments that choose words: where two are nearly equal, rounding decides between them."""


@dataclass(frozen=True)
class Patient:
    """A model, sentences, and translations for it to read."""

    run: Run
    plain: Seq2Seq  # as it was loaded
    fast: Seq2Seq  # as search has it
    search: SearchConfig  # the run's own, greedy where that draws by chance
    sentences: tuple[Sentence, ...]

    @classmethod
    def of(
        cls, run: Run, models: tuple[Seq2Seq, Seq2Seq], search: SearchConfig, sentences: Sequence[Sentence]
    ) -> Patient:
        """`models` are the plain and the fast one. A source without a translation is given the greedy one."""
        if isinstance(search, SampleConfig):
            search = GreedyConfig(kind="greedy", lengths=search.lengths)
        plain, fast = models
        if any(isinstance(part, CHOOSING) for part in plain.modules()):
            plain = fast = copy.deepcopy(plain).double()
        patient = cls(run, plain, fast, search, tuple(sentences))
        if all(sentence.target is not None for sentence in sentences):
            return patient
        greedy = GreedyConfig(kind="greedy", lengths=search.lengths)
        found = Native(plain).translate(patient.sources, greedy, budget=BUDGET)
        read = (replace(s, target=best[0].tokens) for s, best in zip(sentences, found, strict=True))
        return replace(patient, sentences=tuple(read))

    @property
    def engine(self) -> Native:
        """What searches."""
        return Native(self.fast)

    @property
    def is_exact(self) -> bool:
        """Whether it is examined in double precision, lest rounding choose among words."""
        return self.plain.output.weight.dtype == torch.float64

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.plain.device

    @property
    def sources(self) -> list[tuple[int, ...]]:
        """Of each sentence."""
        return [sentence.source for sentence in self.sentences]

    def batches(self) -> Iterator[Reading]:
        """All sentences, those alike in length together."""
        for rows in by_length(self.sources, BUDGET):
            yield Reading.of([self.sentences[row] for row in rows], self.device)

    def singles(self) -> Iterator[Reading]:
        """All sentences, each alone."""
        for sentence in self.sentences:
            yield Reading.of([sentence], self.device)


@dataclass(frozen=True)
class Reading:
    """Sentences with their translations, as tensors."""

    sentences: tuple[Sentence, ...]
    source: Tensor  # [B, S], padding after the end
    mask: Tensor  # [B, S]
    target: Tensor  # [B, T], the begin first, padding after the last word

    @classmethod
    def of(cls, sentences: Sequence[Sentence], device: torch.device) -> Reading:
        """Of sentences that have a translation."""
        source, mask = collate_source([sentence.source for sentence in sentences])
        longest = max(len(sentence.target or ()) for sentence in sentences) + 1
        target = torch.full((len(sentences), longest), PAD)
        for row, sentence in enumerate(sentences):
            words = torch.tensor([BOS, *(sentence.target or ())])
            target[row, : len(words)] = words
        return cls(tuple(sentences), source.to(device), mask.to(device), target.to(device))

    def rows(self, table: Tensor) -> Iterator[tuple[Sentence, Tensor]]:
        """Each sentence with its own part of what was made of all: [B, T, ...] -> [its words + 1, ...]"""
        for sentence, row in zip(self.sentences, table, strict=True):
            yield sentence, row[: len(sentence.target or ()) + 1]

    def padded(self, more: int, garbage: int) -> Reading:
        """The same with `more` columns of padding, and all padding of the source filled with a word."""
        source = torch.cat([self.source, self.source.new_zeros(len(self.source), more)], 1)
        mask = torch.cat([self.mask, self.mask.new_zeros(len(self.mask), more)], 1)
        return replace(self, source=source.masked_fill(~mask, garbage), mask=mask)


def log_probs(model: Seq2Seq, reading: Reading) -> Tensor:
    """Of each next word, all read at once: [B, T, V]"""
    hidden = model(reading.source, reading.mask, reading.target).hidden
    return logarithms(model.output(hidden))


def logarithms(logits: Tensor) -> Tensor:
    """log softmax, in float32 at least"""
    kind = torch.promote_types(logits.dtype, torch.float32)
    return torch.log_softmax(logits.to(kind), -1)


def stepwise(model: Seq2Seq, reading: Reading) -> Tensor:
    """The same word by word, as search reads: [B, T, V]"""
    memory, state = model.encode(reading.source, reading.mask)
    steps = list[Tensor]()
    for word in reading.target.unbind(1):
        found, state = model.step(word, state, memory)
        steps.append(found)
    return torch.stack(steps, 1)
