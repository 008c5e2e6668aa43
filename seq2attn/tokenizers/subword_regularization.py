"""Cutting a word into pieces at random, the same in any process for the same generator.

SentencePiece draws too, but its draws cannot be repeated: in some versions the seed sets one thread once, in others
every process salts it. What it takes is small: a word, the pieces and their scores.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping
from functools import lru_cache
from itertools import accumulate, pairwise
from math import exp, inf, log
from random import Random

CACHE = 2**17
"""Words whose choices are kept: most text is made of few."""
UNKNOWN_PENALTY = 10.0
"""How much less than the worst piece a character scores that is no piece (SentencePiece's number)."""


class BPEDropoutSampler:
    """Byte-pair encoding that skips merges (Provilkov et al. 2020, algorithm 1).

    Each time, every possible merge is dropped with probability `dropout`; the best of the others is done.
    """

    def __init__(self, scores: Mapping[str, float], dropout: float) -> None:
        self._scores, self._dropout = scores, dropout

    def segment(self, word: str, random: Random) -> list[str]:
        """The pieces of a word; characters that are no pieces stay alone."""
        symbols = list(word)
        while True:
            best, place = -inf, -1
            for index, (left, right) in enumerate(pairwise(symbols)):
                score = self._scores.get(left + right, -inf)
                # Drawn only for what could be chosen: whether another merge is dropped changes nothing.
                if score > best and random.random() >= self._dropout:
                    best, place = score, index
            if place < 0:
                return symbols
            symbols[place : place + 2] = ["".join(symbols[place : place + 2])]


class UnigramSampler:
    """The unigram model's cuts, each drawn with the power `alpha` of its probability (Kudo 2018)."""

    def __init__(self, scores: Mapping[str, float], alpha: float) -> None:
        self._scores, self._alpha = scores, alpha
        self._longest = max(map(len, scores))
        self._unknown = min(scores.values()) - UNKNOWN_PENALTY
        self._choices = lru_cache(CACHE)(self._all_choices)

    def segment(self, word: str, random: Random) -> list[str]:
        """The pieces of a word; characters that are no pieces stay alone."""
        choices, end, pieces = self._choices(word), len(word), list[str]()
        while end:
            starts, sums = choices[end]
            start = starts[min(bisect(sums, random.random()), len(starts) - 1)]
            pieces.append(word[start:end])
            end = start
        return pieces[::-1]

    def _all_choices(self, word: str) -> list[tuple[list[int], list[float]]]:
        """For each end, where the piece before it may start, and the summed probabilities of these starts."""
        total, choices = (
            [0.0],
            [(list[int](), list[float]())],
        )  # total[e]: log of the weight of all cuts of word[:e]
        for end in range(1, len(word) + 1):
            starts = [s for s in range(max(0, end - self._longest), end) if word[s:end] in self._scores]
            if end - 1 not in starts:
                starts.append(end - 1)
            weights = [total[s] + self._alpha * self._scores.get(word[s:end], self._unknown) for s in starts]
            highest = max(weights)
            sums = list(accumulate(exp(weight - highest) for weight in weights))
            total.append(highest + log(sums[-1]))
            choices.append((starts, [part / sums[-1] for part in sums]))
        return choices
