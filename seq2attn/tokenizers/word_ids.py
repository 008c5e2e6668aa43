"""The words that tokens belong to, and attention weights between words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray


def assign_word_ids(surfaces: Iterable[str]) -> list[int]:
    """For the text of each token, including spaces, the index of the word with its first letter.

    The words are those of `"".join(surfaces).split()`. A token of spaces only belongs to the next word, at the end to
    the last word; an empty token has index -1.
    """
    word_ids, last, is_open = list[int](), -1, False
    for surface in surfaces:
        if not surface:
            word_ids.append(-1)
            continue
        words = surface.split()
        is_open = is_open and not surface[0].isspace()
        word_ids.append(last if is_open else last + 1)
        if words:
            last += len(words) - is_open
            is_open = not surface[-1].isspace()
    return [min(index, last) for index in word_ids]


def pool_to_words(
    weights: NDArray[np.float32], queries: tuple[Sequence[int], int], keys: tuple[Sequence[int], int]
) -> NDArray[np.float32]:
    """Attention weights between words: [..., query tokens, key tokens] -> [..., query words, key words].

    `queries` and `keys` are the word of each token and the number of words. Weights are summed over the tokens of a
    key word and averaged over those of a query word, so that the sums of rows stay; a word without tokens has zeros.
    """
    to_queries, to_keys = (np.eye(count, dtype=np.float32)[list(word_ids)] for word_ids, count in (queries, keys))
    to_queries /= np.maximum(to_queries.sum(axis=0), 1)
    result: NDArray[np.float32] = to_queries.T @ (weights @ to_keys)
    return result
