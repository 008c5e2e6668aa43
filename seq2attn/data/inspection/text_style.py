"""Comparison of the style of two texts: tokenized or not, lower-cased or not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass

_DETACHED = re.compile(r"(?<!\S)[.,。，、．؟،](?!\S)")
_ATTACHED = re.compile(r"(?<=\S)(?:[.,](?!\S)|[。，、．؟،])")
MIN_MARKS, MIN_CAPITALS = 5, 10
"""Minimum number of full stops and commas, and of expected capitals, in a comparison."""


@dataclass(frozen=True)
class TextStyle:
    """Counts of capitals among cased letters, and of full stops and commas after a space among all."""

    num_upper: int = 0
    num_cased: int = 0  # 0 if the tokenizer ignores case
    num_detached: int = 0
    num_marks: int = 0

    @classmethod
    def from_lines(cls, lines: Sequence[str]) -> TextStyle:
        """The counts of a text."""
        text = "\n".join(lines)
        upper, detached = sum(map(str.isupper, text)), len(_DETACHED.findall(text))
        return cls(upper, upper + sum(map(str.islower, text)), detached, detached + len(_ATTACHED.findall(text)))

    def __add__(self, other: TextStyle) -> TextStyle:
        return TextStyle(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    def differences(self, training: TextStyle) -> list[str]:
        """Descriptions of differences from the training text that lower the quality; none for small counts."""
        differences, styles = [], (self, training)
        share, training_share = (style.num_detached / max(style.num_marks, 1) for style in styles)
        if abs(share - training_share) > 0.5 and min(style.num_marks for style in styles) >= MIN_MARKS:
            shares = f"{share:.0%} of its full stops and commas stand alone, {training_share:.0%} in training"
            differences.append(f"is tokenized differently from the training text: {shares}")
        share, training_share = (style.num_upper / max(style.num_cased, 1) for style in styles)
        higher, num_cased = max(share, training_share), min(style.num_cased for style in styles)
        if min(share, training_share) < higher / 10 and higher * num_cased >= MIN_CAPITALS:
            shares = f"{share:.1%} of its letters are capitals, {training_share:.1%} in training"
            differences.append(f"is cased differently from the training text: {shares}")
        return differences
