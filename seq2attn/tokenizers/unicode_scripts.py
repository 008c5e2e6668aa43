"""Unicode scripts of letters and texts."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from itertools import chain

HAN = "Han and kana"
"""The script of letters in Chinese and Japanese."""
SCRIPT_ALIASES = dict.fromkeys(("Cjk", "Ideographic", "Hiragana", "Katakana", "Katakana-hiragana", "Bopomofo"), HAN)

JAPANESE, CHINESE = "Han with kana", "Han"
"""Scripts of whole texts in Japanese and Chinese; the script of other texts is that of their letters."""
UNSPACED = frozenset({JAPANESE, CHINESE, "Thai", "Lao", "Khmer", "Myanmar"})
"""Scripts of texts without spaces between words."""
KANA = frozenset(map(chr, range(0x3041, 0x3100)))
MIN_KANA_SHARE = 0.05
"""Minimum share of kana among the letters of Japanese text; a Chinese text may quote a few."""


def unicode_script(character: str) -> str | None:
    """`Latin`, `Cyrillic` ... by the letter's name in Unicode; None for other characters."""
    if unicodedata.category(character)[0] != "L":
        return None
    return _first_word_of_name(_plain(character))


def is_unspaced(character: str) -> bool:
    """True for letters and punctuation of scripts without spaces between words and sentences."""
    return unicode_script(character) == HAN or "\u3000" <= character <= "\u303f" or "\uff00" <= character <= "\uffef"


def is_of_unspaced_script(character: str) -> bool:
    """True for characters, including combining marks, of scripts without spaces between words."""
    return is_unspaced(character) or _first_word_of_name(character) in UNSPACED


def main_script(lines: Iterable[str]) -> str | None:
    """The most frequent script among the letters of a text; None for a text without letters."""
    scripts: Counter[str] = Counter()
    num_kana = 0
    for character, count in Counter(chain.from_iterable(lines)).items():
        script = unicode_script(character)
        if script is not None:
            scripts[script] += count
            num_kana += count * (_plain(character) in KANA)
    if not scripts:
        return None
    script = max(sorted(scripts), key=lambda script: scripts[script])
    if script != HAN:
        return script
    return JAPANESE if num_kana >= MIN_KANA_SHARE * scripts[HAN] else CHINESE


def _plain(character: str) -> str:
    """The letter that a wide or mathematical variant stands for."""
    return unicodedata.normalize("NFKC", character)[0]


def _first_word_of_name(character: str) -> str:
    name = unicodedata.name(character, "UNNAMED").split(" ")[0].capitalize()
    return SCRIPT_ALIASES.get(name, name)
