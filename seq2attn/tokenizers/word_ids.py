"""Which word of a text each token of it belongs to, and what follows for weights between tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray


def assign_word_ids(surfaces: Iterable[str]) -> list[int]:
    """For each piece of a text, spaces included, the number of the word in which its first letter lies.

    The words are those of `"".join(surfaces).split()`. A piece of nothing but spaces goes with the word after it,
    at the end with the last one; an empty piece belongs to none: -1.
    """
    numbers, last, is_open = list[int](), -1, False
    for surface in surfaces:
        if not surface:
            numbers.append(-1)
            continue
        words = surface.split()
        is_open = is_open and not surface[0].isspace()
        numbers.append(last if is_open else last + 1)
        if words:
            last += len(words) - is_open
            is_open = not surface[-1].isspace()
    return [min(number, last) for number in numbers]


def pool_to_words(
    weights: NDArray[np.float32], asking: tuple[Sequence[int], int], asked: tuple[Sequence[int], int]
) -> NDArray[np.float32]:
    """Weights [..., tokens, tokens] between the words that the tokens make, [..., words, words].

    For either side the word of each token, and how many words there are. Weights on the tokens of a word add up,
    and how its tokens look is averaged, so that rows still add up to what they did; a word without a token has zeros.
    """
    of_asking, of_asked = (np.eye(words, dtype=np.float32)[list(word_of)] for word_of, words in (asking, asked))
    of_asking /= np.maximum(of_asking.sum(axis=0), 1)
    result: NDArray[np.float32] = of_asking.T @ (weights @ of_asked)
    return result
