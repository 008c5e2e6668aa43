"""A line in parts that a model can read: its sentences, and of those that are too long their clauses, words, letters.

A sentence is a part by itself, since models are trained on sentences; shorter pieces are put together again as far as
they fit, since any cut inside a sentence does harm.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import pairwise

from seq2attn.text.sentences import sentences

Length = Callable[[str], int]
"""How many tokens a text has."""


def shorten(line: str, most: int, length: Length) -> list[str]:
    """The line in parts of at most `most` tokens each, in their order; a letter may have more all the same."""
    return [
        part for sentence in sentences(line) for part in _fitting(sentence, most, length, (_clauses, _words))
    ]


def _fitting(text: str, most: int, length: Length, cuts: Sequence[Callable[[str], list[str]]]) -> list[str]:
    """`text`, or its pieces, put together as far as they fit."""
    if length(text) <= most:
        return [text]
    if not cuts:
        return _halves(text, most, length)
    cut, *finer = cuts
    parts, held, size = list[str](), "", 0
    for piece in cut(text):
        tokens = length(piece.strip())
        if held and size + tokens > most:
            parts.append(held)
            held, size = "", 0
        held, size = held + piece, size + tokens
    parts.append(held)
    # Put together, pieces may have more tokens than each alone, and one may be too long by itself.
    return [part for one in parts if one.strip() for part in _fitting(one.strip(), most, length, finer)]


def _clauses(sentence: str) -> list[str]:
    """At commas, semicolons, colons and dashes, the space after them included."""
    cuts = [found.end() for found in re.finditer(r"(?<=[,;:–—،؛])\s++|[，、；：]++\s*+", sentence)]
    return [sentence[start:end] for start, end in pairwise([0, *cuts, len(sentence)])]


def _words(text: str) -> list[str]:
    return re.findall(r"\S++\s*+", text)


def _halves(word: str, most: int, length: Length) -> list[str]:
    """Anywhere, but not between a letter and its accents."""
    middle = len(word) // 2
    if length(word) <= most or not middle:
        return [word]
    while middle < len(word) and unicodedata.category(word[middle]).startswith("M"):
        middle += 1
    middle = middle if middle < len(word) else len(word) // 2
    halves = filter(None, (word[:middle].strip(), word[middle:].strip()))
    return [part for half in halves for part in _halves(half, most, length)]
