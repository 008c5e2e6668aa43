"""Attention weights as a picture (Bahdanau et al. 2015, figure 3), one map per head."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from seq2attn.io.terminal import shorten, visible
from seq2attn.options import ColorScale
from seq2attn.visualization.attention_map import MEAN, AttentionMap, ScaledWeights, scale_weights
from seq2attn.visualization.figure import INK, figure
from seq2attn.visualization.text_heatmap import display_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

MAX_WIDTH_INCHES = 14.0  # of a row of maps, unless its labels become illegible
MAX_SIZE_INCHES = 40.0  # of all maps, in each direction: limits the number of pixels
LETTER_INCHES = 0.08  # mean width; the file is cropped to the actual size
LINE_INCHES = 0.2
MAX_LABEL_LENGTH = 40  # characters
MAX_TITLE_LINES = 3  # of the run, and of the sentence
COLORMAP = "Blues"  # one hue, white for zero


def draw_heatmap(attention: AttentionMap, path: Path, *, color_scale: ColorScale = "max", title: str = "") -> None:
    """Draw attention maps to a PNG, SVG or PDF file: a row per layer, a column per head, one color scale.

    Raises UserError if matplotlib is missing or `path` has another suffix.
    """
    layers, heads, num_queries, num_keys = attention.weights.shape
    queries, keys = (
        [shorten(visible(token), MAX_LABEL_LENGTH) for token in side.tokens]
        for side in (attention.queries, attention.keys)
    )
    scaled = scale_weights(attention.weights, color_scale)
    columns = heads if min(layers, heads) > 1 else math.ceil(math.sqrt(layers * heads))  # nearly a square
    rows = math.ceil(layers * heads / columns)
    cell = _cell_size(rows * num_queries, columns * num_keys, is_one=rows * columns == 1)
    width = columns * (num_keys * cell + 0.25) + LETTER_INCHES * max(map(display_width, queries)) + 1
    height = rows * (num_queries * cell + 0.35 + LETTER_INCHES * max(map(display_width, keys)))
    heading = _wrap(visible(title), width)  # control characters are not allowed in SVG

    with figure(path, width=width, height=height + LINE_INCHES * len(heading)) as canvas:
        canvas.suptitle("\n".join(heading), size=10, color=INK)
        maps = canvas.subplots(rows, columns, squeeze=False).ravel()
        for axes in maps[layers * heads :]:
            axes.remove()
        maps = maps[: layers * heads]
        for number, axes in enumerate(maps):
            layer, head = divmod(number, heads)
            image = _draw_map(axes, scaled.values[layer, head], scaled.full)
            axes.set_anchor("N")  # next to the labels above
            axes.xaxis.set_label_position("top")
            axes.set_xlabel(_caption(attention, layer, head), labelpad=5)
            is_first = number % columns == 0
            if min(layers, heads) > 1 and is_first:
                axes.set_ylabel(f"layer {attention.layers[layer]}")
            _label(axes, keys, queries if is_first else (), min(9.0, 0.75 * cell * 72))
        _draw_legend(canvas, image, [*maps], scaled, height=height)


def _cell_size(rows: int, columns: int, *, is_one: bool) -> float:
    """Width and height in inches of a cell among those of all maps; larger if there `is_one` map."""
    fits_page = max(0.12, MAX_WIDTH_INCHES / columns)
    return min(0.3 if is_one else 0.22, fits_page, MAX_SIZE_INCHES / columns, MAX_SIZE_INCHES / rows)


def _draw_legend(canvas: Figure, image: AxesImage, maps: list[Axes], scaled: ScaledWeights, *, height: float) -> None:
    """Draw a color bar with numbers beside maps of `height` inches in total, with their labels."""
    shrink = min(1.0, 2 / height)  # at most two inches
    bar = canvas.colorbar(image, ax=maps, shrink=shrink, aspect=16, pad=0.02, panchor=False, label=scaled.legend)
    ticks = (0.0, 0.5, 1.0)
    bar.set_ticks([share * scaled.full for share in ticks], labels=[scaled.number(share) for share in ticks])
    bar.outline.set_visible(False)


def _wrap(title: str, width: float) -> list[str]:
    """The title in lines for a figure of `width` inches; each of its lines becomes at most `MAX_TITLE_LINES`."""
    lines = []
    for line in filter(None, title.split("\n")):
        letters = max(30, int(width / LETTER_INCHES))
        max_length = int(letters * len(line) / max(1, display_width(line)))  # wide characters count twice
        lines += textwrap.wrap(line, max_length, max_lines=MAX_TITLE_LINES, placeholder=" …")
    return lines


def _caption(attention: AttentionMap, layer: int, head: int) -> str:
    """Short caption that distinguishes a map from the others."""
    if len(attention.heads) > 1:
        return f"head {attention.heads[head]}"
    if len(attention.layers) > 1:
        return f"layer {attention.layers[layer]}"
    return attention.name(layer, head) if attention.heads == (MEAN,) else ""


def _draw_map(axes: Axes, values: np.ndarray, full: float) -> AxesImage:
    image = axes.imshow(values, cmap=COLORMAP, vmin=0, vmax=full, interpolation="nearest", aspect="equal")
    # A grid of minor ticks would be far slower: each tick is an object.
    rows, columns = (np.arange(n + 1) - 0.5 for n in values.shape)
    axes.hlines(rows, columns[0], columns[-1], color="#E4E4E4", linewidth=0.5)
    axes.vlines(columns, rows[0], rows[-1], color="#E4E4E4", linewidth=0.5)
    axes.spines[:].set(visible=True, color="#B0B0B0", linewidth=0.5)
    return image


def _label(axes: Axes, source: Sequence[str], target: Sequence[str], size: float) -> None:
    """Label the columns and, unless `target` is empty, the rows, in letters of `size` points."""
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(source)), source, rotation=90, size=size)
    axes.set_yticks(range(len(target)), target, size=size)
    axes.tick_params(length=0, pad=3)
    for text in axes.get_xticklabels():  # aligned, independent of descenders
        text.set(rotation_mode="anchor", ha="left", va="center_baseline")
