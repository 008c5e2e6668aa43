"""Scripts without spaces between words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain

import regex

JAPANESE, CHINESE = "Han with kana", "Han"
"""Scripts of whole texts in Japanese and Chinese."""
MIN_KANA_SHARE = 0.05
"""Minimum share of kana among the letters of Japanese text; a Chinese text may quote a few."""
_KANA = regex.compile(r"[\p{Hiragana}\p{Katakana}ー]")
_EAST_ASIAN = regex.compile(r"[\p{Han}\p{Bopomofo}\p{Hiragana}\p{Katakana}ー]")
_SOUTH_EAST_ASIAN = {name: regex.compile(rf"\p{{{name}}}") for name in ("Thai", "Lao", "Khmer", "Myanmar")}


def is_east_asian(character: str) -> bool:
    """True for letters and punctuation of Chinese and Japanese, which have no spaces between words and sentences."""
    is_punctuation = "\u3000" <= character <= "\u303f" or "\uff00" <= character <= "\uffef"
    return is_punctuation or _EAST_ASIAN.match(character) is not None


def is_unspaced(character: str) -> bool:
    """True for characters, including combining marks, of scripts without spaces between words."""
    return is_east_asian(character) or any(script.match(character) for script in _SOUTH_EAST_ASIAN.values())


def unspaced_script(lines: Iterable[str]) -> str | None:
    """The script of most letters of a text, if it has no spaces between words; None for other texts."""
    letters = {character: n for character, n in Counter(chain.from_iterable(lines)).items() if character.isalpha()}

    def share(script: regex.Pattern[str]) -> float:
        return sum(n for character, n in letters.items() if script.match(character)) / max(sum(letters.values()), 1)

    if share(_EAST_ASIAN) > 0.5:
        return JAPANESE if share(_KANA) >= MIN_KANA_SHARE else CHINESE
    return next((name for name, script in _SOUTH_EAST_ASIAN.items() if share(script) > 0.5), None)
