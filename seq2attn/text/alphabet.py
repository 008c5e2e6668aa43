"""Numbers for characters as they are met, so that what each of them is can be asked for millions at once."""

from __future__ import annotations

import sys
import unicodedata

import numpy as np
from numpy.typing import NDArray

from seq2attn.text.scripts import script

SPACE, UPPER, LOWER, STOP, WIDE_STOP, CONTROL, REPLACED = (1 << bit for bit in range(7))
"""What a character may be: the bits of its traits."""
STOPS, WIDE_STOPS = ".,", "。，、．؟،"
"""Marks that every language attaches to the word before them; after the wide ones there need be no space."""


class Alphabet:
    """The characters met so far. Number 0 is none."""

    def __init__(self) -> None:
        self._numbers = np.zeros(sys.maxunicode + 1, dtype=np.intp)
        self.characters = [""]
        self.scripts = [""]  # number 0: that of what is no letter
        self.traits: NDArray[np.uint8] = np.zeros(1, dtype=np.uint8)  # [characters]
        self.script: NDArray[np.uint8] = np.zeros(1, dtype=np.uint8)  # [characters], numbers of `scripts`

    def number(self, codes: NDArray[np.uint32]) -> NDArray[np.intp]:
        """The numbers of code points; those that were never met get the next ones."""
        numbers = self._numbers[codes]
        if numbers.all():
            return numbers
        new = [chr(code) for code in np.unique(codes[numbers == 0]).tolist()]
        self._numbers[[ord(one) for one in new]] = range(
            len(self.characters), len(self.characters) + len(new)
        )
        self.characters += new
        self.traits = np.append(self.traits, np.array([_traits(one) for one in new], dtype=np.uint8))
        self.script = np.append(self.script, np.array([self._script(one) for one in new], dtype=np.uint8))
        return self._numbers[codes]

    def _script(self, character: str) -> int:
        name = script(character) or ""
        if name not in self.scripts and len(self.scripts) < 256:  # there are fewer than that alive
            self.scripts.append(name)
        return self.scripts.index(name) if name in self.scripts else 0


def _traits(character: str) -> int:
    category = unicodedata.category(character)
    found = {
        SPACE: character.isspace(),
        UPPER: category in ("Lu", "Lt"),
        LOWER: category == "Ll",
        STOP: character in STOPS,
        WIDE_STOP: character in WIDE_STOPS,
        CONTROL: category == "Cc" and not character.isspace(),
        REPLACED: character == "\ufffd",
    }
    return sum(bit for bit, is_so in found.items() if is_so)
