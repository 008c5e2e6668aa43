"""The script that a letter belongs to, by its name in Unicode."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from itertools import chain

HAN = "Han and kana"
"""What Chinese and Japanese are written in; neither puts spaces between words."""
SCRIPT_ALIASES = dict.fromkeys(("Cjk", "Ideographic", "Hiragana", "Katakana", "Katakana-hiragana", "Bopomofo"), HAN)

JAPANESE, CHINESE = "Han with kana", "Han"
"""Names of the scripts of whole texts; other texts have the names of their letters."""
UNSPACED = frozenset({JAPANESE, CHINESE, "Thai", "Lao", "Khmer", "Myanmar"})
"""Scripts of texts without spaces between words."""
KANA = 0.05
"""Minimum share of kana among the letters of Japanese text; a Chinese text may cite some."""


def unicode_script(character: str) -> str | None:
    """`Latin`, `Cyrillic` ...; None for what is no letter."""
    if unicodedata.category(character)[0] != "L":
        return None
    plain = unicodedata.normalize("NFKC", character)[0]  # wide and mathematical letters are letters too
    first = unicodedata.name(plain, "UNNAMED").split(" ")[0].capitalize()
    return SCRIPT_ALIASES.get(first, first)


def is_unspaced(character: str) -> bool:
    """Whether a character belongs to a script that puts no spaces between words and sentences."""
    return unicode_script(character) == HAN or "\u3000" <= character <= "\u303f" or "\uff00" <= character <= "\uffef"


def is_of_unspaced_script(character: str) -> bool:
    """Whether a character, or the letter below a mark, is of a script without spaces between words."""
    return is_unspaced(character) or unicodedata.name(character, "").split(" ")[0].capitalize() in UNSPACED


def main_script(lines: Iterable[str]) -> str | None:
    """Script of most letters of a text; None for a text without letters."""
    scripts: Counter[str] = Counter()
    kana = 0
    for character, count in Counter(chain.from_iterable(lines)).items():
        name = unicode_script(character)
        if name is not None:
            scripts[name] += count
            kana += count * _is_kana(character)
    if not scripts:
        return None
    name = max(sorted(scripts), key=lambda name: scripts[name])
    if name != HAN:
        return name
    return JAPANESE if kana >= KANA * scripts[HAN] else CHINESE


def _is_kana(character: str) -> bool:
    return unicodedata.normalize("NFKC", character)[0] in _KANA


_KANA = frozenset(map(chr, range(0x3041, 0x3100)))
