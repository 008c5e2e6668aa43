"""Comparison of how two texts are written: tokenized or not, lower-cased or not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass

_DETACHED = re.compile(r"(?<!\S)[.,。，、．؟،](?!\S)")
_ATTACHED = re.compile(r"(?<=\S)(?:[.,](?!\S)|[。，、．؟،])")
MIN_MARKS, MIN_CAPITALS = 5, 10
"""Fewer full stops and commas, or expected capitals, are too few to compare."""


@dataclass(frozen=True)
class TextStyle:
    """Counts of capitals among cased letters, and of full stops and commas after a space among all."""

    num_upper: int = 0
    num_cased: int = 0  # 0 where the tokenizer ignores case
    num_detached: int = 0
    num_marks: int = 0

    @classmethod
    def from_lines(cls, lines: Sequence[str]) -> TextStyle:
        """The counts over some lines."""
        text = "\n".join(lines)
        upper, detached = sum(map(str.isupper, text)), len(_DETACHED.findall(text))
        return cls(upper, upper + sum(map(str.islower, text)), detached, detached + len(_ATTACHED.findall(text)))

    def __add__(self, other: TextStyle) -> TextStyle:
        return TextStyle(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    def differences(self, trained: TextStyle) -> list[str]:
        """Differences from the training text that a model would suffer from; none for small counts."""
        found, both = [], (self, trained)
        here, there = (one.num_detached / max(one.num_marks, 1) for one in both)
        if abs(here - there) > 0.5 and min(one.num_marks for one in both) >= MIN_MARKS:
            shares = f"{here:.0%} of its full stops and commas stand alone, {there:.0%} in training"
            found.append(f"is tokenized otherwise than the training text: {shares}")
        here, there = (one.num_upper / max(one.num_cased, 1) for one in both)
        num_expected = max(here, there) * min(one.num_cased for one in both)
        if min(here, there) < max(here, there) / 10 and num_expected >= MIN_CAPITALS:
            shares = f"{here:.1%} of its letters are capitals, {there:.1%} in training"
            found.append(f"has other case than the training text: {shares}")
        return found
