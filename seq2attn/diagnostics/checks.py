"""Checks of a trained model: what its search relies on, sentence by sentence.

Shapes: B sentences, S source tokens, T target tokens, V vocabulary.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2attn.data.batch_planner import batch_by_length
from seq2attn.data.collate import collate
from seq2attn.engines.native import NativeEngine
from seq2attn.models import Seq2Seq
from seq2attn.search.config import SearchConfig

LOG_PROB_TOLERANCE = 1e-3
"""Largest difference of log-probabilities that is allowed. In float32 they are right to about 1e-5."""
MAX_BATCH_TOKENS = 1024
"""Source tokens of a batch, padding counted."""
EXTRA_PADDING = 3
"""Columns of padding that are added to a batch."""


@dataclass(frozen=True)
class Sentence:
    """A source, a translation of it, and its number in the file that it is from."""

    number: int
    source: tuple[int, ...]
    target: tuple[int, ...]


@dataclass(frozen=True)
class Subject:
    """A trained model that is checked, and the sentences that it is checked with."""

    reference_model: Seq2Seq  # as it was loaded
    search_model: Seq2Seq  # as search has it
    search: SearchConfig
    sentences: tuple[Sentence, ...]
    origin: str  # of the sentences

    @property
    def sources(self) -> list[tuple[int, ...]]:
        """The source of each sentence."""
        return [sentence.source for sentence in self.sentences]

    def batches(self) -> Iterator[list[Sentence]]:
        """All sentences, those alike in length together."""
        for rows in batch_by_length(self.sources, MAX_BATCH_TOKENS):
            yield [self.sentences[row] for row in rows]


Check: TypeAlias = Callable[[Subject], Iterator[tuple[int, float]]]
"""The numbers of sentences, each with a difference that should be zero but for rounding."""


def check_batching(subject: Subject) -> Iterator[tuple[int, float]]:
    """Score of the best hypothesis, by the run's own search, of a sentence in a batch and alone.

    Between two that are nearly equal rounding may decide, but not in double precision: hypotheses that differ are
    searched again in it.
    """
    model, sources = subject.search_model, subject.sources
    batched, alone = (_best(subject, model, sources, budget) for budget in (MAX_BATCH_TOKENS, 1))
    differing = [row for row in range(len(sources)) if batched[row][0] != alone[row][0]]
    if differing:
        exact = copy.deepcopy(subject.reference_model).double()
        batched_again = _best(subject, exact, sources, MAX_BATCH_TOKENS)
        alone_again = _best(subject, exact, [sources[row] for row in differing], 1)
        for row, hypothesis in zip(differing, alone_again, strict=True):
            batched[row], alone[row] = batched_again[row], hypothesis
    for sentence, (_, score), (_, other) in zip(subject.sentences, batched, alone, strict=True):
        yield sentence.number, abs(score - other)


def check_cache(subject: Subject) -> Iterator[tuple[int, float]]:
    """Log-probabilities of every next token, word by word from a state, as search reads, and all at once."""
    for sentences in subject.batches():
        batch = collate(_pairs(sentences)).to(subject.reference_model.device)
        at_once = log_probs(subject.reference_model, batch.source, batch.source_mask, batch.target)
        stepwise = stepwise_log_probs(subject.search_model, batch.source, batch.source_mask, batch.target)
        yield from _differences(sentences, stepwise, at_once)


def check_padding(subject: Subject) -> Iterator[tuple[int, float]]:
    """Log-probabilities of a sentence in a batch, with tokens in the place of padding, and alone."""
    model, token = subject.reference_model, subject.sources[0][0]
    for sentences in subject.batches():
        batch = collate(_pairs(sentences)).to(model.device)
        source, mask = (F.pad(side, (0, EXTRA_PADDING)) for side in (batch.source, batch.source_mask))
        padded = log_probs(model, source.masked_fill(~mask, token), mask, batch.target)
        for row, sentence in zip(padded, sentences, strict=True):
            one = collate(_pairs([sentence])).to(model.device)
            alone = log_probs(model, one.source, one.source_mask, one.target)
            yield from _differences([sentence], row[None], alone)


def check_scores(subject: Subject) -> Iterator[tuple[int, float]]:
    """Log-probability a token that search gives to each hypothesis, and that of forced decoding."""
    engine = NativeEngine(subject.search_model)
    found = engine.translate(subject.sources, subject.search, budget=MAX_BATCH_TOKENS)
    each = [
        (sentence, hypothesis)
        for sentence, hypotheses in zip(subject.sentences, found, strict=True)
        for hypothesis in hypotheses
    ]
    pairs = [(sentence.source, hypothesis.tokens) for sentence, hypothesis in each]
    forced = engine.token_log_probs(pairs, budget=MAX_BATCH_TOKENS)
    for (sentence, hypothesis), tokens in zip(each, forced, strict=True):
        yield sentence.number, abs(hypothesis.log_prob - sum(tokens)) / len(tokens)


def log_probs(model: Seq2Seq, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
    """Log-probabilities of every next token, all at once: [B, S], [B, S], [B, T] -> [B, T, V]"""
    return model.log_probs(model(source, mask, target).hidden)


def stepwise_log_probs(model: Seq2Seq, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
    """The same token by token from a state."""
    memory, state = model.encode(source, mask)
    steps = list[Tensor]()
    for token in target.unbind(1):
        found, state = model.step(token, state, memory)
        steps.append(found)
    return torch.stack(steps, 1)


def max_abs_difference(one: Tensor, other: Tensor) -> float:
    """Largest difference of two numbers in the same place; equal infinities have none."""
    return float(torch.where(one == other, 0.0, (one.double() - other.double()).abs()).max())


def _best(
    subject: Subject, model: Seq2Seq, sources: Sequence[tuple[int, ...]], budget: int
) -> list[tuple[tuple[int, ...], float]]:
    """Tokens and score of the best hypothesis of each source."""
    found = NativeEngine(model).translate(sources, subject.search, budget=budget)
    return [(hypotheses[0].tokens, hypotheses[0].score) for hypotheses in found]


def _pairs(sentences: Sequence[Sentence]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [(sentence.source, sentence.target) for sentence in sentences]


def _differences(sentences: Sequence[Sentence], one: Tensor, other: Tensor) -> Iterator[tuple[int, float]]:
    """Largest difference in the rows of each sentence, padding left out: [B, T, V], [B, T, V]"""
    for sentence, row, other_row in zip(sentences, one, other, strict=True):
        end = len(sentence.target) + 1
        yield sentence.number, max_abs_difference(row[:end], other_row[:end])
