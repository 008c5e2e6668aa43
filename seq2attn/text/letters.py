"""Which of two texts another is rather like, by how often each letter stands in it, whatever its case.

A language shows in its letters: a few hundred of them tell German from English. It takes no model of any language.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

Letters = Mapping[str, int]
"""How often each letter stands in a text."""
UNSEEN = 1e-6
"""The probability of a letter that a text does not have: the same in all texts, so that it tells nothing."""


def closer(letters: Letters, here: Letters, there: Letters) -> float:
    """By how many nats a letter `letters` are likelier among those `here` than among those `there`."""
    folded = _folded(letters)
    return (_log_likelihood(folded, here) - _log_likelihood(folded, there)) / sum(folded.values())


def _log_likelihood(letters: Letters, learnt: Letters) -> float:
    known = _folded(learnt)
    total = sum(known.values())
    return sum(n * math.log(known.get(letter, 0) / total + UNSEEN) for letter, n in letters.items())


def _folded(letters: Letters) -> Counter[str]:
    folded: Counter[str] = Counter()
    for letter, count in letters.items():
        folded[letter.lower()] += count
    return folded
