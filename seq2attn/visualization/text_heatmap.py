"""Attention weights as text: a terminal is all that one needs to see them."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np

from seq2attn.visualization.color_scale import ScaledWeights

COLUMNS = 80
MIN_COLUMNS = 16  # columns: less has no room for a label and a map
MAX_HEADING_LENGTH = 12  # lines of text; longer source words get numbers and a legend
MAX_LABEL_LENGTH = 20

SHADES = " ·░▒▓█"
EDGES = (0.05, 0.15, 0.35, 0.6, 0.85)  # of the full color; finer near nothing, where most of the weights are


def legend_text(scaled: ScaledWeights, columns: int = COLUMNS) -> str:
    """Legend of the shades of a map."""
    entries = [f"{shade} {scaled.number(edge)}+" for shade, edge in zip(SHADES[1:], EDGES, strict=True)]
    return "\n".join(_wrapped([f"{scaled.legend}:", *entries], max(columns, MIN_COLUMNS)))


def heatmap_text(source: Sequence[str], target: Sequence[str], shares: np.ndarray, *, columns: int = COLUMNS) -> str:
    """A map of `shares` [target, source] of the darkest shade, a row a target token, at most so many columns wide.

    A source too long for that is continued in further maps below. Raises ValueError if the sizes do not fit.
    """
    if shares.shape != (len(target), len(source)):
        raise ValueError(f"weights are {shares.shape}, not [{len(target)} target, {len(source)} source]")
    words = [_clusters(token) for token in source]
    columns = max(columns, MIN_COLUMNS)
    labels = [_shorten(_clusters(token), min(MAX_LABEL_LENGTH, columns // 3)) for token in target]
    margin = max(map(display_width, labels), default=0) + 1
    room = columns - margin
    cell = 2 if 2 * len(source) <= room else 1
    named = all(len(word) <= MAX_HEADING_LENGTH and all(display_width(c) <= cell for c in word) for word in words)
    headings = words if named else [list(str(i)) for i in range(1, len(words) + 1)]
    levels = np.digitize(shares, EDGES)

    lines: list[str] = []
    for start in range(0, len(source), room // cell):
        part = slice(start, start + room // cell)
        lines += [" " * margin + line for line in _upright(headings[part], cell)]
        for label, row in zip(labels, levels[:, part], strict=True):
            shades = "".join(SHADES[level] * cell for level in row)
            lines.append(f"{_pad_left(label, margin - 1)} {shades.rstrip()}".rstrip())
        lines.append("")
    if not named:
        legend = [f"{i} {_shorten(word, columns // 2)}" for i, word in enumerate(words, start=1)]
        lines += [*_wrapped(legend, columns), ""]
    return "\n".join(lines)


def _clusters(token: str) -> list[str]:
    """What a terminal draws in one place: a character with the marks that combine with it."""
    clusters: list[str] = []
    for character in token:
        category = unicodedata.category(character)
        if category == "Cf":
            continue  # joiners and direction marks: invisible, and some turn the line around
        if clusters and category in ("Mn", "Me"):
            clusters[-1] += character
        else:
            clusters.append(character if character.isprintable() else "�")  # an escape code must stay text
    return clusters


def display_width(text: str) -> int:
    """Columns that `text` takes in a terminal."""
    return sum(
        0 if unicodedata.category(c) in ("Mn", "Me") else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def _shorten(clusters: list[str], longest: int) -> str:
    if display_width("".join(clusters)) <= longest:
        return "".join(clusters)
    while display_width("".join(clusters)) > longest - 1:
        clusters = clusters[:-1]
    return "".join(clusters) + "…"


def _pad_left(text: str, width: int) -> str:
    return " " * (width - display_width(text)) + text


def _upright(headings: Sequence[list[str]], cell: int) -> list[str]:
    """Words written downwards, ending on the same line, each in a column `cell` wide."""
    height = max(map(len, headings))
    columns = [[""] * (height - len(word)) + word for word in headings]
    return ["".join(c + " " * (cell - display_width(c)) for c in line).rstrip() for line in zip(*columns, strict=True)]


def _wrapped(entries: Sequence[str], columns: int) -> list[str]:
    """Entries on as few lines as they need."""
    lines = [""]
    for entry in entries:
        if lines[-1] and display_width(lines[-1]) + 2 + display_width(entry) > columns:
            lines.append("")
        lines[-1] += ("  " if lines[-1] else "") + entry
    return lines
