"""Random segmentation of words into subwords, reproducible in any process.

SentencePiece samples too, but not reproducibly: in some versions the seed is set once for one thread, in others every
process adds a salt.
"""

from bisect import bisect
from collections.abc import Mapping
from functools import lru_cache
from itertools import accumulate, pairwise
from math import exp, inf, log
from random import Random
from typing import Any

CACHE_SIZE, MAX_CACHED_LENGTH = 2**17, 20
"""Maximum number of words whose segmentations are cached, and of their characters: without spaces a sentence is a word,
and does not occur again."""
UNKNOWN_PENALTY = 10.0
"""Score of an unknown character below that of the worst subword (SentencePiece's value)."""


class BPEDropoutSampler:
    """Byte-pair encoding with dropout (Provilkov et al. 2020, algorithm 1).

    In each step every possible merge is dropped with probability `dropout`; the best of the others is applied.
    """

    def __init__(self, scores: Mapping[str, float], dropout: float) -> None:
        self._scores, self._dropout = scores, dropout

    def segment(self, word: str, random: Random) -> list[str]:
        """The subwords of a word; unknown characters stay single."""
        symbols = list(word)
        while True:
            best_score, best_index = -inf, -1
            for index, (left, right) in enumerate(pairwise(symbols)):
                score = self._scores.get(left + right, -inf)
                # A random number only for candidates: whether another merge is dropped changes nothing.
                if score > best_score and random.random() >= self._dropout:
                    best_score, best_index = score, index
            if best_index < 0:
                return symbols
            symbols[best_index : best_index + 2] = ["".join(symbols[best_index : best_index + 2])]


class UnigramSampler:
    """Segmentations sampled with probabilities of the unigram model to the power `alpha` (Kudo 2018)."""

    def __init__(self, scores: Mapping[str, float], alpha: float) -> None:
        self._scores, self._alpha = scores, alpha
        self._max_subword_length = max(map(len, scores))
        self._unknown_score = min(scores.values()) - UNKNOWN_PENALTY
        self._cached_lattice = lru_cache(CACHE_SIZE)(self._lattice)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._scores, self._alpha)  # without the cache

    def segment(self, word: str, random: Random) -> list[str]:
        """The subwords of a word; unknown characters stay single."""
        lattice = (self._cached_lattice if len(word) <= MAX_CACHED_LENGTH else self._lattice)(word)
        end, subwords = len(word), list[str]()
        while end:
            starts, cumulative = lattice[end]
            start = starts[min(bisect(cumulative, random.random()), len(starts) - 1)]
            subwords.append(word[start:end])
            end = start
        return subwords[::-1]

    def _lattice(self, word: str) -> list[tuple[list[int], list[float]]]:
        """For each end, the possible starts of the subword before it, and their cumulative probabilities."""
        lattice = [(list[int](), list[float]())]
        totals = [0.0]  # totals[e]: log of the summed weights of all segmentations of word[:e]
        for end in range(1, len(word) + 1):
            starts = [s for s in range(max(0, end - self._max_subword_length), end) if word[s:end] in self._scores]
            if end - 1 not in starts:
                starts.append(end - 1)
            weights = [totals[s] + self._alpha * self._scores.get(word[s:end], self._unknown_score) for s in starts]
            highest = max(weights)
            sums = list(accumulate(exp(weight - highest) for weight in weights))
            totals.append(highest + log(sums[-1]))
            lattice.append((starts, [partial / sums[-1] for partial in sums]))
        return lattice
