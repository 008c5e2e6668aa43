"""The script that a letter belongs to, by its name in Unicode."""

from __future__ import annotations

import unicodedata

HAN = "Han and kana"
"""What Chinese and Japanese are written in; neither puts spaces between words."""
SAME = dict.fromkeys(("Cjk", "Ideographic", "Hiragana", "Katakana", "Katakana-hiragana", "Bopomofo"), HAN)


def script(character: str) -> str | None:
    """`Latin`, `Cyrillic` ...; None for what is no letter."""
    if unicodedata.category(character)[0] != "L":
        return None
    plain = unicodedata.normalize("NFKC", character)[0]  # wide and mathematical letters are letters too
    first = unicodedata.name(plain, "UNNAMED").split(" ")[0].capitalize()
    return SAME.get(first, first)


def is_unspaced(character: str) -> bool:
    """Whether a character belongs to a script that puts no spaces between words and sentences."""
    return script(character) == HAN or "\u3000" <= character <= "\u303f" or "\uff00" <= character <= "\uffef"
