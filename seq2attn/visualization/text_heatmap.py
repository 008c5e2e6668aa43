"""Attention weights as text in a terminal."""

import unicodedata
from collections.abc import Sequence

import numpy as np
import regex

from seq2attn.visualization.attention_map import ScaledWeights

COLUMNS = 80
MIN_COLUMNS = 16  # for a label and a map
MAX_HEADING_LENGTH = 12  # lines; longer source tokens are numbered, with a legend
MAX_LABEL_LENGTH = 20

SHADES = " ·░▒▓█"
EDGES = (0.05, 0.15, 0.35, 0.6, 0.85)  # shares of the full color; finer near zero, where most weights are


def legend_text(scaled: ScaledWeights, columns: int) -> str:
    """Legend of the shades of a map."""
    entries = [f"{shade} {scaled.number(edge)}+" for shade, edge in zip(SHADES[1:], EDGES, strict=True)]
    return "\n".join(_wrapped([f"{scaled.legend}:", *entries], max(columns, MIN_COLUMNS)))


def heatmap_text(source: Sequence[str], target: Sequence[str], shares: np.ndarray, *, columns: int = COLUMNS) -> str:
    """A map of `shares` [target, source] of the darkest shade: a row per target token, at most `columns` wide.

    A longer source is continued in further maps below.
    """
    tokens = [_clusters(token) for token in source]
    columns = max(columns, MIN_COLUMNS)
    labels = [_shorten(_clusters(token), min(MAX_LABEL_LENGTH, columns // 3)) for token in target]
    margin = max(map(display_width, labels), default=0) + 1
    room = columns - margin
    cell = 2 if 2 * len(source) <= room else 1
    fits = all(len(token) <= MAX_HEADING_LENGTH and all(display_width(c) <= cell for c in token) for token in tokens)
    headings = tokens if fits else [list(str(i)) for i in range(1, len(tokens) + 1)]
    levels = np.digitize(shares, EDGES)

    lines: list[str] = []
    for start in range(0, len(source), room // cell):
        part = slice(start, start + room // cell)
        lines += [" " * margin + line for line in _upright(headings[part], cell)]
        for label, row in zip(labels, levels[:, part], strict=True):
            shades = "".join(SHADES[level] * cell for level in row)
            padding = " " * (margin - 1 - display_width(label))
            lines.append(f"{padding}{label} {shades.rstrip()}".rstrip())
        lines.append("")
    if not fits:
        legend = [f"{i} {_shorten(token, columns // 2)}" for i, token in enumerate(tokens, start=1)]
        lines += [*_wrapped(legend, columns), ""]
    return "\n".join(lines)


def _clusters(token: str) -> list[str]:
    """Characters with their combining marks, each one cell of a terminal."""
    token = regex.sub(r"\p{Cf}", "", token)  # joiners and direction marks: invisible, and some reverse the line
    clusters = regex.findall(r"(?s).[\p{Mn}\p{Me}]*", token)
    return [cluster if cluster.isprintable() else "�" for cluster in clusters]  # no escape codes


def display_width(text: str) -> int:
    """Columns that `text` takes in a terminal."""
    return sum(
        0 if unicodedata.category(c) in ("Mn", "Me") else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def _shorten(clusters: list[str], max_width: int) -> str:
    if display_width("".join(clusters)) <= max_width:
        return "".join(clusters)
    while display_width("".join(clusters)) > max_width - 1:
        clusters = clusters[:-1]
    return "".join(clusters) + "…"


def _upright(headings: Sequence[list[str]], cell: int) -> list[str]:
    """Tokens in vertical columns of width `cell`, aligned at the bottom."""
    height = max(map(len, headings))
    columns = [[""] * (height - len(token)) + token for token in headings]
    return ["".join(c + " " * (cell - display_width(c)) for c in line).rstrip() for line in zip(*columns, strict=True)]


def _wrapped(entries: Sequence[str], columns: int) -> list[str]:
    """Entries in lines of at most `columns`."""
    lines = [""]
    for entry in entries:
        if lines[-1] and display_width(lines[-1]) + 2 + display_width(entry) > columns:
            lines.append("")
        lines[-1] += ("  " if lines[-1] else "") + entry
    return lines
