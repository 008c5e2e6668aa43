"""Laws of search: in a batch or alone, against plain reading, and its scores against reading what was found."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch
from torch import Tensor

from seq2attn.doctor.findings import WORD, Found, worst
from seq2attn.doctor.patient import BUDGET, Patient, Reading, log_probs
from seq2attn.doctor.sentences import Sentence
from seq2attn.engines.native import Native
from seq2attn.search.batched import Hypothesis
from seq2attn.search.config import GreedyConfig
from seq2attn.text.vocabulary import BOS, EOS, PAD

ALONE = 1
"""The budget under which every sentence is searched alone."""


def batch_is_single(patient: Patient) -> Found:
    """A sentence is translated among others as it is alone, by the run's own search.

    Where two hypotheses are nearly equal, rounding may decide between them: then their scores are.
    """
    together, single = (
        patient.engine.translate(patient.sources, patient.search, budget=budget) for budget in (BUDGET, ALONE)
    )
    ties = 0

    def deviations() -> Iterator[tuple[int, float]]:
        nonlocal ties
        for sentence, found, alone in zip(patient.sentences, together, single, strict=True):
            gap = abs(found[0].score - alone[0].score)
            if found[0].tokens != alone[0].tokens:
                gap = min(gap, _parting(patient, sentence, found[0], alone[0]))
                ties += gap <= WORD
            yield sentence.number, gap

    found = worst(deviations(), WORD)
    said = f"{ties} of {len(together)} translations part where two words are as good as equal"
    return Found(found.largest, found.tolerance, found.where, said if ties else "")


def _parting(patient: Patient, sentence: Sentence, one: Hypothesis, other: Hypothesis) -> float:
    """How far apart the words are at which two greedy hypotheses part; of a beam, what is left in double precision."""
    if not isinstance(patient.search, GreedyConfig):
        exact = Native(copy.deepcopy(patient.plain).double())
        together = exact.translate(patient.sources, patient.search, budget=BUDGET)
        (alone,) = exact.translate([sentence.source], patient.search, budget=BUDGET)
        return abs(together[patient.sentences.index(sentence)][0].score - alone[0].score)
    words = [(*hypothesis.tokens, EOS) for hypothesis in (one, other)]
    place = next(i for i, (a, b) in enumerate(zip(*words, strict=False)) if a != b)
    return _gap(patient, sentence, one.tokens[:place], (words[0][place], words[1][place]))


@torch.no_grad()
def _gap(patient: Patient, sentence: Sentence, read: tuple[int, ...], words: tuple[int, int]) -> float:
    """The difference of the log-probabilities of two words after those read."""
    reading = Reading.of([Sentence(sentence.number, sentence.source, read)], patient.device)
    last = log_probs(patient.plain, reading)[0, -1]
    return abs(float(last[words[0]] - last[words[1]]))


@torch.no_grad()
def greedy_is_arg_max(patient: Patient) -> Found:
    """Each word of a greedy translation is the likeliest when all before it are read anew.

    The deviation is by how much the likeliest word is likelier than the one that was taken.
    """
    greedy = GreedyConfig(kind="greedy", lengths=patient.search.lengths)
    found = patient.engine.translate(patient.sources, greedy, budget=BUDGET)

    def deviations() -> Iterator[tuple[int, float]]:
        for sentence, (best, *_) in zip(patient.sentences, found, strict=True):
            reading = Reading.of([Sentence(sentence.number, sentence.source, best.tokens)], patient.device)
            table = _allowed(log_probs(patient.plain, reading)[0], patient, sentence)
            taken = torch.tensor([*best.tokens, EOS], device=table.device)
            chosen = table.gather(1, taken.unsqueeze(1)).squeeze(1)
            yield sentence.number, float((table.amax(1) - chosen).max())

    return worst(deviations(), WORD)


def _allowed(table: Tensor, patient: Patient, sentence: Sentence) -> Tensor:
    """[T, V] without the words that search must not choose: no begin, no padding, an end within the limits."""
    limits = patient.search.lengths.limits(torch.tensor([len(sentence.source)]))
    fewest, most = int(limits.fewest), int(limits.most)
    table = table.index_fill(1, torch.tensor([PAD, BOS], device=table.device), -torch.inf)
    table[: fewest - 1, EOS] = -torch.inf
    end = table[most - 1 :, EOS].clone()
    table[most - 1 :] = -torch.inf
    table[most - 1 :, EOS] = end
    return table


def scores_are_forced(patient: Patient) -> Found:
    """The log-probability that search gives to each hypothesis is that of reading it, counted a word."""
    found = patient.engine.translate(patient.sources, patient.search, budget=BUDGET)
    pairs = list(zip(patient.sentences, found, strict=True))
    read = [(sentence.source, one.tokens) for sentence, some in pairs for one in some]
    scores = map(sum, patient.engine.token_log_probs(read, budget=BUDGET))

    def deviations() -> Iterator[tuple[int, float]]:
        for sentence, some in pairs:
            for one in some:
                yield sentence.number, abs(one.log_prob - next(scores)) / (len(one.tokens) + 1)

    return worst(deviations(), WORD)
