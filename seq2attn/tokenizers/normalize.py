"""Normalization of lines before they are tokenized, and scripts without spaces between words."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import ClassVar, Literal

import regex

from seq2attn.config.base import Config

SPACE_MARK = "▁"
"""The mark of a space inside tokens (U+2581); in text it is treated as a space."""

MAX_MARKS, GRAPHEME_JOINER = 30, "\u034f"
"""Maximum number of combining marks that are sorted together, and the character between longer runs."""


class NormalizeConfig(Config):
    """Normalization before tokenization; white space always becomes single spaces, none at the ends."""

    lowercase: bool = False
    """Lower-case all text (I becomes i, also in Turkish). Translations are then lower-case, too."""
    normalization: Literal["none", "nfc", "nfkc"] = "nfc"
    """Unicode normal form: `nfc` joins letters and accents; `nfkc` also rewrites ligatures, wide letters."""
    vocabulary_source: ClassVar[None] = None
    """No files: the vocabulary is made of the training text."""

    def normalize(self, line: str) -> str:
        """The line that is tokenized, and that `decode` restores."""
        line = self._compose(line)
        if self.lowercase:
            line = self._compose(line.lower())
        return collapse_line(line.replace(SPACE_MARK, " "))

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


# Unicode's ignorable characters are variation selectors and fillers too. Private and unassigned characters are visible:
# fonts have the private ones, and a later version of Unicode may assign the others.
_VISIBLE = regex.compile(rf"[^\p{{Cc}}\p{{Cf}}\p{{Z}}\p{{Default_Ignorable_Code_Point}}{SPACE_MARK}]")


def is_blank(text: str) -> bool:
    """True for a text without visible characters: only spaces, controls, and format characters such as U+200B."""
    return _VISIBLE.search(text) is None


def collapse_line(line: str) -> str:
    """`collapse_whitespace` of a line; an empty string for a blank one. Within a line invisible characters stay."""
    return "" if is_blank(line) else collapse_whitespace(line)


JAPANESE, CHINESE = "Han with kana", "Han"
"""Scripts of whole texts in Japanese and Chinese."""
MIN_KANA_SHARE = 0.05
"""Minimum share of kana among the letters of Japanese text; a Chinese text may quote a few."""
_KANA = regex.compile(r"[\p{Hiragana}\p{Katakana}ー]")
_EAST_ASIAN = regex.compile(r"[\p{Han}\p{Bopomofo}\p{Hiragana}\p{Katakana}ー]")
# Full-width digits and Latin letters are those of words and numbers.
_EAST_ASIAN_PUNCTUATION = regex.compile(
    r"[\u3000-\u303f\uff00-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff9f\uffe0-\uffef]"
)
_OTHER_UNSPACED = {name: regex.compile(rf"\p{{{name}}}") for name in ("Thai", "Lao", "Khmer", "Myanmar", "Tibetan")}
_UNSPACED = "|".join(script.pattern for script in (_EAST_ASIAN, _EAST_ASIAN_PUNCTUATION, *_OTHER_UNSPACED.values()))
_AT_UNSPACED = rf"(?<={_UNSPACED})|(?={_UNSPACED})"
STACKERS = "\u17d2\u1039"
"""Khmer's coeng and Burmese's virama, which put the next letter under the one before (Unicode: invisible stackers)."""
FORMAT_CHARACTERS = "\u00ad\u180e\u200c\u200d"
"""Invisible characters inside words (Unicode category Cf): soft hyphen, Mongolian vowel separator, ZWNJ and ZWJ."""
WORD_START = rf"(?:(?<![\p{{L}}\p{{M}}\p{{N}}_{FORMAT_CHARACTERS}])|(?<![{STACKERS}])(?:{_AT_UNSPACED}))"
WORD_END = rf"(?![\p{{M}}{FORMAT_CHARACTERS}])(?:(?![\p{{L}}\p{{N}}_])|(?<![{STACKERS}])(?:{_AT_UNSPACED}))"
"""Patterns of `regex` for places where a word may begin and end: in scripts without spaces before any letter."""
_LETTER_REST = rf"(?:\p{{M}}|(?<=[{STACKERS}])\p{{L}})*"
_WORD = regex.compile(rf"(?:(?:{_UNSPACED}){_LETTER_REST}|(?:(?!{_UNSPACED})\S)+)\s*")


def is_east_asian(character: str) -> bool:
    """True for letters and punctuation of Chinese and Japanese, which have no spaces between words and sentences."""
    return any(pattern.match(character) for pattern in (_EAST_ASIAN, _EAST_ASIAN_PUNCTUATION))


def join_sentences(texts: Sequence[str]) -> str:
    """Sentences of one line, with spaces between them unless the script has none."""
    line = ""
    for text in filter(None, texts):
        space = " " if line and not (is_east_asian(line[-1]) or is_east_asian(text[0])) else ""
        line += space + text
    return line


@lru_cache(2**16)
def is_unspaced(character: str) -> bool:
    """True for characters, including combining marks, of scripts without spaces between words."""
    return is_east_asian(character) or any(script.match(character) for script in _OTHER_UNSPACED.values())


def segment_words(text: str) -> list[str]:
    """The words of a text, each with the space after it; every letter of scripts without spaces is a word."""
    return _WORD.findall(text)


def unspaced_script(lines: Iterable[str]) -> str | None:
    """The script of most letters of a text, if it has no spaces between words; None for other texts."""
    letters = {character: n for character, n in Counter(chain.from_iterable(lines)).items() if character.isalpha()}

    def share(script: regex.Pattern[str]) -> float:
        return sum(n for character, n in letters.items() if script.match(character)) / max(sum(letters.values()), 1)

    if share(_EAST_ASIAN) > 0.5:
        return JAPANESE if share(_KANA) >= MIN_KANA_SHARE else CHINESE
    return next((name for name, script in _OTHER_UNSPACED.items() if share(script) > 0.5), None)
