"""Fonts for the characters of labels, in any script."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

BASE_FAMILY = "DejaVu Sans"  # comes with matplotlib; has Latin, Greek, Cyrillic, Arabic, Hebrew and ▁
PREFERRED_FAMILIES = ("Noto Sans", "Noto Sans CJK JP", "Hiragino Sans", "Yu Gothic", "WenQuanYi Zen Hei")
PLACEHOLDER_FAMILY = "Last Resort"  # boxes for all characters


def font_families(characters: Iterable[str]) -> list[str]:
    """Families of installed fonts that together cover `characters` as far as possible; `BASE_FAMILY` first.

    matplotlib falls back from one to the next for each character.
    """
    from matplotlib import font_manager

    missing = {c for c in characters if unicodedata.category(c) not in ("Cc", "Cf", "Zs", "Zl", "Zp")}
    families = [BASE_FAMILY]
    missing -= _available(font_manager.findfont(BASE_FAMILY), missing)
    if not missing:
        return families
    _add_new_fonts()
    regular = {
        font.name: font.fname
        for font in font_manager.fontManager.ttflist
        if font.style == "normal"
        and font.weight in (400, "normal", "regular")
        and not font.name.startswith(PLACEHOLDER_FAMILY)
    }
    for name in sorted(regular, key=lambda name: (name not in PREFERRED_FAMILIES, name)):
        if available := _available(regular[name], missing):
            families.append(name)
            missing -= available
        if not missing:
            break
    return families


def _add_new_fonts() -> None:
    """Add the fonts that were installed after matplotlib wrote its cached list of fonts."""
    from matplotlib import font_manager

    known = {font.fname for font in font_manager.fontManager.ttflist}
    for path in sorted(set(font_manager.findSystemFonts()) - known):
        try:
            font_manager.fontManager.addfont(path)
        except (OSError, RuntimeError):  # a bitmap font, or a corrupt file
            continue


def _available(path: str, characters: set[str]) -> set[str]:
    """The characters that a font file has glyphs for."""
    from matplotlib import font_manager

    font = font_manager.get_font(path)
    return {c for c in characters if font.get_char_index(ord(c))}
