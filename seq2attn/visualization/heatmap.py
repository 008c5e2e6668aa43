"""Attention as a picture (Bahdanau et al. 2015, figure 3), one map a head."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seq2attn.visualization.attention_map import MEAN, AttentionMap
from seq2attn.visualization.color_scale import DEFAULT_COLOR_SCALE, ColorScale, ScaledWeights, scale_weights
from seq2attn.visualization.figure import INK, figure
from seq2attn.visualization.text_heatmap import display_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

MAX_WIDTH_INCHES = 14.0  # inches of all maps beside each other, as long as the words stay legible
MAX_SIZE_INCHES = 40.0  # inches of all maps, whatever becomes of the words: more would be too many pixels
LETTER_INCHES = 0.08  # inches, roughly: what does not fit is made room for when the file is written
LINE = 0.2  # inches
LONGEST_LABEL = 40  # characters
TITLE_LINES = 3  # of the run, and of the sentence
COLORMAP = "Blues"  # one hue from white: nothing looks like nothing, and nobody needs to tell hues apart


def draw_heatmap(
    one: AttentionMap, path: Path, *, color_scale: ColorScale = DEFAULT_COLOR_SCALE, title: str = ""
) -> None:
    """Draw an attention map to a PNG, SVG or PDF file: layers below each other, heads beside, on one color scale.

    Raises UserError if matplotlib is missing or the suffix is another.
    """
    layers, heads, asking, asked = one.weights.shape
    queries, keys = ([_shorten(token) for token in side.tokens] for side in (one.queries, one.keys))
    scaled = scale_weights(one.weights, color_scale)
    grid = _grid(layers, heads)
    rows, columns = grid.shape
    cell = min(
        0.3 if grid.size == 1 else 0.22,
        max(0.12, MAX_WIDTH_INCHES / (columns * asked)),
        MAX_SIZE_INCHES / (columns * asked),
        MAX_SIZE_INCHES / (rows * asking),
    )
    width = columns * (asked * cell + 0.25) + LETTER_INCHES * max(map(display_width, queries)) + 1
    heading = _wrap(title, width)
    height = rows * (asking * cell + 0.35 + LETTER_INCHES * max(map(display_width, keys))) + LINE * len(heading)

    with figure(path, width=width, height=height) as canvas:
        canvas.suptitle("\n".join(heading), size=10, color=INK)
        used = []
        for (row, column), number in np.ndenumerate(grid):
            if number < 0:
                continue
            axes = canvas.add_subplot(rows, columns, row * columns + column + 1)
            layer, head = divmod(int(number), heads)
            image = _draw_map(axes, scaled.values[layer, head], scaled.full)
            axes.set_anchor("N")  # so that the labels stand where the layout made room for them
            axes.xaxis.set_label_position("top")
            axes.set_xlabel(_caption(one, layer, head), labelpad=5)
            if min(layers, heads) > 1 and column == 0:
                axes.set_ylabel(f"layer {one.layers[layer]}")
            size = min(9.0, 0.75 * cell * 72)
            _label(axes, keys, queries if column == 0 else (), size)
            used.append(axes)
        _draw_legend(canvas, image, used, scaled, height=rows * asking * cell)


def _draw_legend(canvas: Figure, image: AxesImage, maps: list[Axes], scaled: ScaledWeights, *, height: float) -> None:
    """A color bar with numbers beside maps that are together `height` inches high."""
    shrink = min(1.0, 2 / height)  # to two inches at most
    bar = canvas.colorbar(image, ax=maps, shrink=shrink, aspect=16, pad=0.02, panchor=False, label=scaled.legend)
    marked = (0.0, 0.5, 1.0)
    bar.set_ticks([share * scaled.full for share in marked], labels=[scaled.number(share) for share in marked])
    bar.outline.set_visible(False)


def _shorten(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"


def _wrap(title: str, width: float) -> list[str]:
    """The lines of a title above a figure `width` inches wide, each cut where it takes too many."""
    lines = []
    for line in filter(None, title.split("\n")):
        room = max(30, int(width / LETTER_INCHES)) * len(line) / max(1, display_width(line))  # wide characters take two
        lines += textwrap.wrap(line, int(room), max_lines=TITLE_LINES, placeholder=" …")
    return lines


def _grid(layers: int, heads: int) -> NDArray[np.int_]:
    """Where each map goes: a table of layers and heads if there are several of both, else nearly a square; -1: none."""
    numbers = np.arange(layers * heads)
    if layers > 1 and heads > 1:
        return numbers.reshape(layers, heads)
    columns = math.ceil(math.sqrt(len(numbers)))
    rows = math.ceil(len(numbers) / columns)
    return np.pad(numbers, (0, rows * columns - len(numbers)), constant_values=-1).reshape(rows, columns)


def _caption(one: AttentionMap, layer: int, head: int) -> str:
    """What stands above a map: what tells it from the others, and is short."""
    if len(one.heads) > 1:
        return f"head {one.heads[head]}"
    if len(one.layers) > 1:
        return f"layer {one.layers[layer]}"
    return one.name(layer, head) if one.heads == (MEAN,) else ""


def _draw_map(axes: Axes, values: np.ndarray, full: float) -> AxesImage:
    image = axes.imshow(values, cmap=COLORMAP, vmin=0, vmax=full, interpolation="nearest", aspect="equal")
    # Not as a grid of minor ticks, each of which is an object that takes a millisecond.
    rows, columns = (np.arange(n + 1) - 0.5 for n in values.shape)
    axes.hlines(rows, columns[0], columns[-1], color="#E4E4E4", linewidth=0.5)
    axes.vlines(columns, rows[0], rows[-1], color="#E4E4E4", linewidth=0.5)
    axes.spines[:].set(visible=True, color="#B0B0B0", linewidth=0.5)
    return image


def _label(axes: Axes, source: Sequence[str], target: Sequence[str], size: float) -> None:
    """Words above and to the left, `size` points large; none at the left where a neighbor already shows them."""
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(source)), source, rotation=90, size=size)
    axes.set_yticks(range(len(target)), target, size=size)
    axes.tick_params(length=0, pad=3)
    for text in axes.get_xticklabels():  # on one line, whatever hangs below it
        text.set(rotation_mode="anchor", ha="left", va="center_baseline")
