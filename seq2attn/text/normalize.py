"""What is done to every line before it is cut into tokens, by us and in sight."""

from __future__ import annotations

import unicodedata
from typing import Literal

from seq2attn.config.base import Config

SPACE = "▁"
"""The mark of a space inside tokens (U+2581); in a text it is taken for a space."""


class NormalizeConfig(Config):
    """What every tokeniser does first; white space always becomes single spaces, none at the ends."""

    lowercase: bool = False
    """Make all letters small. Translations then come out in small letters too."""
    unicode: Literal["none", "nfc", "nfkc"] = "nfc"
    """Unicode normal form: `nfc` joins letters and accents; `nfkc` also rewrites ligatures, wide letters."""

    def normalize(self, line: str) -> str:
        """The line as the tokeniser sees it, and as `decode` gives it back."""
        line = self._compose(line)
        if self.lowercase:
            line = self._compose(line.lower())
        return one_line(line.replace(SPACE, " "))

    def _compose(self, line: str) -> str:
        match self.unicode:
            case "none":
                return line
            case "nfc":
                return unicodedata.normalize("NFC", line)
            case "nfkc":
                return unicodedata.normalize("NFKC", line)


def one_line(text: str) -> str:
    """The text with every run of white space, line breaks among them, as one space, and none at the ends."""
    return " ".join(text.split())
