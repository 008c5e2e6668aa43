"""What is done to every line before it is cut into tokens, by us and in sight."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Literal

from seq2attn.config.base import Config

SPACE_MARK = "▁"
"""The mark of a space inside tokens (U+2581); in a text it is taken for a space."""

MAX_MARKS, JOINER = 30, "\u034f"
"""The most marks of a letter that are sorted at once, and the character that parts them."""


class NormalizeConfig(Config):
    """What every tokenizer does first; white space always becomes single spaces, none at the ends."""

    lowercase: bool = False
    """Make all letters small. Translations then come out in small letters too."""
    normalization: Literal["none", "nfc", "nfkc"] = "nfc"
    """Unicode normal form: `nfc` joins letters and accents; `nfkc` also rewrites ligatures, wide letters."""

    def normalize(self, line: str) -> str:
        """The line as the tokenizer sees it, and as `decode` gives it back."""
        line = self._compose(line)
        if self.lowercase:
            line = self._compose(line.lower())
        return collapse_whitespace(line.replace(SPACE_MARK, " "))

    def _compose(self, line: str) -> str:
        match self.normalization:
            case "none":
                return line
            case "nfc":
                return normalize("NFC", line)
            case "nfkc":
                return normalize("NFKC", line)


def normalize(form: Literal["NFC", "NFKC"], line: str) -> str:
    """The line in a normal form, in time that grows with its length.

    Unicode sorts the marks of a letter, which takes the square of their number. Where there are more than 30, as in no
    language, the combining grapheme joiner is put after each 30 of them (Unicode Standard Annex 15, stream-safe text).
    """
    if len(line) > MAX_MARKS and not line.isascii():
        line = _long_runs().sub(rf"\g<0>{JOINER}", line)
    return unicodedata.normalize(form, line)


@cache
def _long_runs() -> re.Pattern[str]:
    marks = "".join(chr(code) for code in range(0x300, 0x20000) if unicodedata.combining(chr(code)))
    return re.compile(f"[{marks}]{{{MAX_MARKS}}}(?=[{marks}])")


def collapse_whitespace(text: str) -> str:
    """The text with every run of white space, line breaks among them, as one space, and none at the ends."""
    return " ".join(text.split())
