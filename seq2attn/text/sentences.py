"""A line into its sentences, and parts of a line joined again.

A sentence ends with `.`, `!`, `?` or `…`, closing quotes among them, where a space and then a capital, a digit or a
letter without case follow; and with `。`, `！` or `？` whatever follows. A full stop after one letter, after a word of
consonants (`Dr.`, `bzw.`) or after one or two digits (`3. Mai`) ends none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

from seq2attn.text.scripts import is_unspaced

# A run of marks is tried from its first one only, and never given back in part: time grows with the line, no faster.
_END = re.compile(
    r"""(?<![.!?…۔؟।॥])(?P<marks>[.!?…۔؟।॥]++)[ ]?["'”’“‘»«›‹)\]}]*+\s++(?=["'“‘„«‹(\[{¿¡–—-]*+(?P<next>\S))"""
    r"""|(?<![。！？｡])[。！？｡]++[」』”’）】》]*+\s*+"""
)
_VOWELS = frozenset("aeiouyаеёиоуыэюяієїαεηιουω")
_QUOTES = "\"'“”‘’„«»‹›…()"
"""Marks that all scripts share."""
SHORT = 4
"""Letters of the longest word of consonants that is taken for an abbreviation."""


def sentences(line: str) -> list[str]:
    """The sentences of a line, in their order, without the spaces around them; none if it is nothing but spaces."""
    has_capitals = any(map(str.isupper, line))
    cuts = [found.end() for found in _END.finditer(line) if _ends(line, found, has_capitals=has_capitals)]
    parts = (line[start:end].strip() for start, end in pairwise([0, *cuts, len(line)]))
    return [part for part in parts if part]


def join(parts: Sequence[str]) -> str:
    """Parts of a line in one, with spaces between them, but where a script has none."""
    given = [part for part in parts if part]
    if not given:
        return ""
    edges = [(part.strip(_QUOTES) or part) for part in given]
    spaces = ["" if is_unspaced(a[-1]) and is_unspaced(b[0]) else " " for a, b in pairwise(edges)]
    return given[0] + "".join(space + part for space, part in zip(spaces, given[1:], strict=True))


def _ends(line: str, found: re.Match[str], *, has_capitals: bool) -> bool:
    following = found["next"]
    if following is None:
        return True
    if following.islower() and has_capitals:  # in a line of small letters that says nothing
        return False
    return found["marks"] != "." or not _is_abbreviated(
        line[max(0, found.start() - SHORT - 1) : found.start()]
    )


def _is_abbreviated(before: str) -> bool:
    """Whether a full stop belongs to the word that `before` ends with, which may have begun earlier."""
    word = re.split(r"[^\w]", before)[-1]
    if word.isdecimal():
        return len(word) <= 2
    plain = unicodedata.normalize("NFD", word.lower())
    return len(word) == 1 or (0 < len(word) <= SHORT and word.isalpha() and not _VOWELS & {*plain})
