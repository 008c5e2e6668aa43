"""Word alignments of a pair, in the form of the Pharaoh tools: `0-0 1-2`, source word and target word from 0.

Words are what white space parts in the line as it stands in its file (ASCII white space, as the tools have it).
A gold alignment may have links that are only possible, `1?2` or `1p2`, beside the sure ones (Och and Ney 2003).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from seq2attn.errors import DataError

AlignmentLink: TypeAlias = tuple[int, int]
"""A source word and a target word."""


@dataclass(frozen=True)
class WordAlignment:
    """Which words of a pair belong together."""

    sure: frozenset[AlignmentLink]
    possible: frozenset[AlignmentLink]  # the sure ones among them

    def shifted(self, words: int) -> WordAlignment:
        """The same links where so many words stand before the source."""
        sure, possible = (
            frozenset((source + words, target) for source, target in links) for links in (self.sure, self.possible)
        )
        return WordAlignment(sure, possible)


def split_words(line: str) -> list[str]:
    """The words of a line that links count."""
    return re.findall(r"[^ \t\n\r\f\v]+", line)


def parse_pharaoh(text: str, pair: tuple[str, str], place: str) -> WordAlignment:
    """The links of a line; `place` is where it stands.

    Raises: DataError for what is no link, and for a link to a word that the pair does not have.
    """
    counts = [len(split_words(line)) for line in pair]
    sure, possible = set[AlignmentLink](), set[AlignmentLink]()
    for item in text.split():
        found = re.fullmatch(r"([0-9]{1,9})([-?p])([0-9]{1,9})", item)
        if found is None:
            raise DataError(
                f"{place}: `{item}` is no link; expected a source and a target word, counted from 0,"
                " such as `0-1` (or `0?1` for a possible one)"
            )
        link = int(found[1]), int(found[3])
        for side, word, count in zip(("source", "target"), link, counts, strict=True):
            if word >= count:
                raise DataError(f"{place}: the link `{item}` points at word {word} of the {side}, {_has(count)}")
        possible.add(link)
        if found[2] == "-":
            sure.add(link)
    return WordAlignment(frozenset(sure), frozenset(possible))


def format_pharaoh(links: Iterable[AlignmentLink]) -> str:
    """Links as a line, in the order of the target words."""
    ordered = sorted(links, key=lambda link: (link[1], link[0]))
    return " ".join(f"{source}-{target}" for source, target in ordered)


def _has(count: int) -> str:
    if count < 2:
        return "which has only word 0" if count else "which is empty"
    return f"which has {count} words: 0 to {count - 1}"
