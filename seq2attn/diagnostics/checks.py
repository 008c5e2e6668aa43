"""Checks of a trained model, sentence by sentence: batching, cache, padding and scores of its search.

Shapes: B sentences, S source tokens, T target tokens, V vocabulary.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2attn.data.collate import batch_by_length, collate
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.models import Seq2Seq
from seq2attn.nn.packing import Sequences
from seq2attn.search.search_config import SearchConfig

LOG_PROB_TOLERANCE = 1e-3
"""Largest allowed difference of log-probabilities, which in float32 are exact to about 1e-5."""
MAX_BATCH_TOKENS = 1024
"""Source tokens of a batch, with padding."""
EXTRA_PADDING = 3
"""Padding columns that are added to a batch."""


@dataclass(frozen=True)
class Sentence:
    """A source, its translation, and its line number in the file."""

    number: int
    source: tuple[int, ...]
    target: tuple[int, ...]


@dataclass(frozen=True)
class Subject:
    """A trained model to be checked, and sentences to check it with."""

    reference_model: Seq2Seq  # as loaded
    search_model: Seq2Seq  # as the translator prepares it
    search: SearchConfig
    sentences: tuple[Sentence, ...]
    origin: str  # the file of the sentences

    @property
    def sources(self) -> list[tuple[int, ...]]:
        """The source of each sentence."""
        return [sentence.source for sentence in self.sentences]

    def batches(self) -> Iterator[list[Sentence]]:
        """All sentences, those of similar lengths together."""
        for rows in batch_by_length(self.sources, MAX_BATCH_TOKENS):
            yield [self.sentences[row] for row in rows]


Check: TypeAlias = Callable[[Subject], Iterator[tuple[int, float]]]
"""Yields the line number of each sentence and a difference that should be zero up to rounding."""


def check_batching(subject: Subject) -> Iterator[tuple[int, float]]:
    """Score of the best hypothesis of the run's search, for a sentence in a batch and alone.

    Rounding may decide between nearly equal hypotheses: sentences with different ones are searched again in double
    precision.
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
    for sentence, (_, score), (_, score_alone) in zip(subject.sentences, batched, alone, strict=True):
        yield sentence.number, abs(score - score_alone)


def check_cache(subject: Subject) -> Iterator[tuple[int, float]]:
    """Log-probabilities of every next token, token by token with a cache as in search, and all at once without."""
    model = subject.search_model
    for sentences in subject.batches():
        batch = collate(_pairs(sentences)).to(model.device)
        memory, state = model.encode(batch.source, batch.sequences)
        steps = list[Tensor]()
        for token in batch.target.unbind(1):
            step, state = model.step(token, state, memory)
            steps.append(step)
        at_once = _log_probs(subject.reference_model, batch.source, batch.sequences, batch.target)
        yield from _differences(sentences, torch.stack(steps, 1), at_once)


def check_padding(subject: Subject) -> Iterator[tuple[int, float]]:
    """Log-probabilities of a sentence in a batch, with tokens in place of padding, and alone."""
    model, token = subject.reference_model, subject.sources[0][0]
    for sentences in subject.batches():
        batch = collate(_pairs(sentences)).to(model.device)
        source, mask = (F.pad(side, (0, EXTRA_PADDING)) for side in (batch.source, batch.sequences.mask))
        padded = _log_probs(model, source.masked_fill(~mask, token), Sequences(mask), batch.target)
        for row, sentence in zip(padded, sentences, strict=True):
            single = collate(_pairs([sentence])).to(model.device)
            alone = _log_probs(model, single.source, single.sequences, single.target)
            yield from _differences([sentence], row[None], alone)


def check_scores(subject: Subject) -> Iterator[tuple[int, float]]:
    """Log-probability per token of each hypothesis, in search and by forced decoding."""
    engine = NativeEngine(subject.search_model)
    output = engine.translate(subject.sources, subject.search, budget=MAX_BATCH_TOKENS)
    by_sentence = zip(subject.sentences, output, strict=True)
    hypotheses = [(sentence, hypothesis) for sentence, beam in by_sentence for hypothesis in beam]
    pairs = [(sentence.source, hypothesis.tokens) for sentence, hypothesis in hypotheses]
    forced = engine.token_log_probs(pairs, budget=MAX_BATCH_TOKENS)
    for (sentence, hypothesis), token_log_probs in zip(hypotheses, forced, strict=True):
        yield sentence.number, abs(hypothesis.log_prob - sum(token_log_probs)) / len(token_log_probs)


def _log_probs(model: Seq2Seq, source: Tensor, sequences: Sequences, target: Tensor) -> Tensor:
    """Log-probabilities of every next token, all at once: source [B, S], target [B, T] -> [B, T, V]"""
    return model.log_probs(model(source, sequences, target).hidden)


def max_abs_difference(left: Tensor, right: Tensor) -> float:
    """Largest elementwise difference; that of equal infinities is 0."""
    return float(torch.where(left == right, 0.0, (left.double() - right.double()).abs()).max())


def _best(
    subject: Subject, model: Seq2Seq, sources: Sequence[tuple[int, ...]], budget: int
) -> list[tuple[tuple[int, ...], float]]:
    """Tokens and score of the best hypothesis of each source."""
    output = NativeEngine(model).translate(sources, subject.search, budget=budget)
    return [(hypotheses[0].tokens, hypotheses[0].score) for hypotheses in output]


def _pairs(sentences: Sequence[Sentence]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [(sentence.source, sentence.target) for sentence in sentences]


def _differences(sentences: Sequence[Sentence], left: Tensor, right: Tensor) -> Iterator[tuple[int, float]]:
    """Largest difference of each sentence without padding: [B, T, V], [B, T, V]"""
    for sentence, left_row, right_row in zip(sentences, left, right, strict=True):
        end = len(sentence.target) + 1
        yield sentence.number, max_abs_difference(left_row[:end], right_row[:end])
