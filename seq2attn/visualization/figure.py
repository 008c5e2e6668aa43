"""Files of matplotlib figures: suffixes, style and fonts."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2attn.errors import UserError
from seq2attn.io.outputs import check_output, output
from seq2attn.io.terminal import print_warnings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWING = "drawing"
"""The command, for `check_output`, of all pictures and pages of attention."""
SUFFIXES = (".png", ".svg", ".pdf")
# Okabe and Ito's colors without yellow: distinguishable with color blindness, dark enough for lines on white.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
INK = "#444444"
USUAL_WEIGHT = 400
BASE_FAMILY = "DejaVu Sans"  # comes with matplotlib; has Latin, Greek, Cyrillic, Arabic, Hebrew and ▁
PREFERRED_FAMILIES = ("Noto Sans", "Noto Sans CJK JP", "Hiragino Sans", "Yu Gothic", "WenQuanYi Zen Hei")
PLACEHOLDER_FAMILY = "Last Resort"  # boxes for all characters


def check_picture(path: Path, *, others: tuple[str, ...] = ()) -> None:
    """Check that a picture can be drawn to `path`. Raises UserError.

    `others`: further suffixes that the caller supports, for the message.
    """
    if path.suffix.lower() not in SUFFIXES:
        suffixes = ", ".join((*SUFFIXES, *others))
        raise UserError(f"{path}: cannot draw a `{path.suffix}` file; use one of {suffixes}")
    if find_spec("matplotlib") is None:
        raise UserError("drawing needs matplotlib: pip install 'seq2attn[plots]'")


def check_drawing(path: Path, *inputs: Path | None, others: tuple[str, ...] = (), overwrite: bool = False) -> None:
    """Check that a command with these inputs can draw to `path`, also in a format of `others`. Raises UserError."""
    if path.suffix.lower() not in others:
        check_picture(path, others=others)
    check_output(path, DRAWING, *inputs, overwrite=overwrite)


@contextmanager
def figure(path: Path, *, width: float, height: float) -> Iterator[Figure]:
    """A figure of `width` x `height` inches, written to `path` at the end.

    Raises UserError if matplotlib is missing or `path` has another suffix.
    """
    check_picture(path)
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    style: dict[Any, object] = {
        "font.family": [BASE_FAMILY],
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "axes.titlecolor": INK,
        "legend.labelcolor": INK,
        "savefig.dpi": 200,
        "text.parse_math": False,  # "$5 or $10" is text, not a formula
    }
    with rc_context(style):
        # Without pyplot there is no window and no global state.
        canvas = Figure(figsize=(width, height), layout="constrained")
        yield canvas
        _choose_fonts(canvas)
        with warnings.catch_warnings(record=True) as caught, output(path, DRAWING) as file:
            form = path.suffix.lower().removeprefix(".")
            canvas.savefig(file, format=form, bbox_inches="tight", pad_inches=0.08)
        _issue_warnings(caught, path)


def _choose_fonts(canvas: Figure) -> None:
    """Set further fonts for characters that the base font does not have."""
    from matplotlib.text import Text

    texts: list[Text] = canvas.findobj(Text)
    families = font_families({character for text in texts for character in text.get_text()})
    for text in texts:
        text.set_fontfamily(families)


def font_families(characters: Iterable[str]) -> list[str]:
    """Families of installed fonts that together have `characters` as far as possible; `BASE_FAMILY` first.

    matplotlib falls back from one to the next for each character.
    """
    from matplotlib import font_manager

    missing = {c for c in characters if unicodedata.category(c)[0] not in "CZ"}  # neither control nor space
    fonts = font_manager.fontManager.ttflist  # of a name the upright one of usual weight counts, which is the last
    ordered = sorted(fonts, key=lambda font: (font.style == "normal", font.weight == USUAL_WEIGHT))
    files = {font.name: font.fname for font in ordered}
    installed = files.keys() - {BASE_FAMILY}
    families = list[str]()
    for name in (BASE_FAMILY, *sorted(installed, key=lambda name: (name not in PREFERRED_FAMILIES, name))):
        font = font_manager.get_font(files[name])
        available = {c for c in missing if font.get_char_index(ord(c))}
        if name == BASE_FAMILY or (available and not name.startswith(PLACEHOLDER_FAMILY)):
            families.append(name)
            missing -= available
        if not missing:
            break
    return families


def _issue_warnings(caught: list[warnings.WarningMessage], path: Path) -> None:
    """Print one warning for all characters without a font, and issue the other warnings again."""
    missing = {str(warning.message) for warning in caught if str(warning.message).startswith("Glyph ")}
    if missing:
        count = f"{len(missing)} characters are in no installed font"
        print_warnings([f"{path}: {count}; Noto Sans CJK has Chinese, Japanese and Korean"])
    for warning in caught:
        if str(warning.message) not in missing:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
