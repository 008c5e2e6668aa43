"""Comparison of how two texts are written: tokenized or not, lower-cased or not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

_DETACHED = re.compile(r"(?<!\S)[.,。，、．؟،](?!\S)")
_ATTACHED = re.compile(r"(?<=\S)(?:[.,](?!\S)|[。，、．؟،])")
MIN_PUNCTUATION = 5
"""Fewer full stops and commas are too few to compare."""
MIN_CAPITALS = 10
"""Capitals that one of the texts must have, or have had by the other's share."""


@dataclass(frozen=True)
class TextStyle:
    """Counts of capitals and small letters, and of punctuation with and without a space before it."""

    num_upper: int = 0
    num_lower: int = 0
    num_detached: int = 0
    num_attached: int = 0

    @classmethod
    def from_lines(cls, lines: Sequence[str]) -> TextStyle:
        """The counts over some lines."""
        text = "\n".join(lines)
        return cls(
            sum(map(str.isupper, text)),
            sum(map(str.islower, text)),
            len(_DETACHED.findall(text)),
            len(_ATTACHED.findall(text)),
        )

    def __add__(self, other: TextStyle) -> TextStyle:
        return TextStyle(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    def without_case(self) -> TextStyle:
        """The same counts but those of letters."""
        return replace(self, num_upper=0, num_lower=0)

    @property
    def upper_share(self) -> float:
        """The share of capitals among the letters that have two cases."""
        return self.num_upper / max(self.num_upper + self.num_lower, 1)

    @property
    def detached_share(self) -> float:
        """The share of full stops and commas with a space before them."""
        return self.num_detached / max(self.num_detached + self.num_attached, 1)


def style_differences(text: TextStyle, trained: TextStyle) -> list[str]:
    """Differences between a text and the training text that a model would suffer from; none for small counts."""
    found = []
    if min(one.num_detached + one.num_attached for one in (text, trained)) >= MIN_PUNCTUATION:
        here, there = text.detached_share, trained.detached_share
        if abs(here - there) > 0.5:
            looks = "looks tokenized" if here > there else "does not look tokenized, as the training text was"
            found.append(
                f"{looks}: {here:.0%} of its full stops and commas stand alone, {there:.0%} in training"
            )
    here, there = text.upper_share, trained.upper_share
    shares = f"{here:.1%} of its letters are capitals, {there:.1%} in training"
    num_expected = there * (text.num_upper + text.num_lower)
    if here < there / 10 and num_expected >= MIN_CAPITALS:
        found.append(f"looks lower-cased: {shares}")
    elif there < here / 10 and trained.num_lower and text.num_upper >= MIN_CAPITALS:
        found.append(f"has capitals, and the training text was lower-cased: {shares}")
    return found
