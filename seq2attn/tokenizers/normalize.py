"""Normalization of lines before they are tokenized."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Literal

from seq2attn.config.base import Config

SPACE_MARK = "▁"
"""The mark of a space inside tokens (U+2581); in text it is treated as a space."""

MAX_MARKS, GRAPHEME_JOINER = 30, "\u034f"
"""Maximum number of combining marks that are sorted together, and the character between longer runs."""


class NormalizeConfig(Config):
    """Normalization before tokenization; white space always becomes single spaces, none at the ends."""

    lowercase: bool = False
    """Lower-case all text. Translations are lower-case too, then."""
    normalization: Literal["none", "nfc", "nfkc"] = "nfc"
    """Unicode normal form: `nfc` joins letters and accents; `nfkc` also rewrites ligatures, wide letters."""

    def normalize(self, line: str) -> str:
        """The line that is tokenized, and that `decode` restores."""
        line = self._compose(line)
        if self.lowercase:
            line = self._compose(line.lower())
        return collapse_whitespace(line.replace(SPACE_MARK, " "))

    def _compose(self, line: str) -> str:
        if self.normalization == "none":
            return line
        return normalize("NFC" if self.normalization == "nfc" else "NFKC", line)


def normalize(form: Literal["NFC", "NFKC"], line: str) -> str:
    """The line in a Unicode normal form, in linear time.

    Unicode sorts the combining marks of a letter, in quadratic time. In runs of more than 30, which no language has, a
    combining grapheme joiner is inserted after every 30 (Unicode Standard Annex 15, stream-safe text).
    """
    if len(line) > MAX_MARKS and not line.isascii():
        line = _long_runs().sub(rf"\g<0>{GRAPHEME_JOINER}", line)
    return unicodedata.normalize(form, line)


@cache
def _long_runs() -> re.Pattern[str]:
    marks = "".join(chr(code) for code in range(0x300, 0x20000) if unicodedata.combining(chr(code)))
    return re.compile(f"[{marks}]{{{MAX_MARKS}}}(?=[{marks}])")


def collapse_whitespace(text: str) -> str:
    """The text with each run of white space, including line breaks, as one space, and none at the ends."""
    return " ".join(text.split())
