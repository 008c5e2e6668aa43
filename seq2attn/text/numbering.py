"""Which word of a text each token of it belongs to."""

from __future__ import annotations

from collections.abc import Iterable


def number_words(surfaces: Iterable[str]) -> list[int]:
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
