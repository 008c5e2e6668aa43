"""Attention as a picture (Bahdanau et al. 2015, figure 3), one map a head."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seq2attn.drawing.attention_map import MEAN, AttentionMap
from seq2attn.drawing.figure import figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

WIDEST = 14.0  # inches of all maps beside each other, as long as the words stay legible
LARGEST = 40.0  # inches of all maps, whatever becomes of the words: more would be too many pixels
LETTER = 0.08  # inches, roughly: what does not fit is made room for when the file is written
COLOURMAP = "Blues"  # one hue from white: nothing looks like nothing, and nobody needs to tell hues apart


def draw_map(one: AttentionMap, path: Path) -> None:
    """Draw an attention map to a PNG, SVG or PDF file: layers below each other, heads beside.

    Raises UserError if matplotlib is missing or the suffix is another.
    """
    layers, heads, asking, asked = one.weights.shape
    grid = _grid(layers, heads)
    rows, columns = grid.shape
    cell = min(
        0.3 if grid.size == 1 else 0.22,
        max(0.12, WIDEST / (columns * asked)),
        LARGEST / (columns * asked),
        LARGEST / (rows * asking),
    )
    width = columns * (asked * cell + 0.25) + LETTER * max(map(len, one.queries.tokens)) + 1
    height = rows * (asking * cell + 0.35) + LETTER * max(map(len, one.keys.tokens))

    with figure(path, width=width, height=height) as canvas:
        used = []
        for (row, column), number in np.ndenumerate(grid):
            if number < 0:
                continue
            axes = canvas.add_subplot(rows, columns, row * columns + column + 1)
            layer, head = divmod(int(number), heads)
            image = _draw_map(axes, one.weights[layer, head])
            axes.set_xlabel(_caption(one, layer, head), labelpad=3)
            if min(layers, heads) > 1 and column == 0:
                axes.set_ylabel(f"layer {one.layers[layer]}")
            size = min(9.0, 0.75 * cell * 72)
            _label(axes, one.keys.tokens if row == 0 else (), one.queries.tokens if column == 0 else (), size)
            used.append(axes)
        shrink = min(1.0, 2 / (rows * asking * cell))  # to two inches at most
        bar = canvas.colorbar(
            image, ax=used, shrink=shrink, aspect=16, pad=0.02, ticks=[0, 0.5, 1], label="weight"
        )
        bar.outline.set_visible(False)


def _grid(layers: int, heads: int) -> NDArray[np.int_]:
    """Where each map goes: a table of layers and heads if there are several of both, else nearly a square; -1: none."""
    numbers = np.arange(layers * heads)
    if layers > 1 and heads > 1:
        return numbers.reshape(layers, heads)
    columns = math.ceil(math.sqrt(len(numbers)))
    rows = math.ceil(len(numbers) / columns)
    return np.pad(numbers, (0, rows * columns - len(numbers)), constant_values=-1).reshape(rows, columns)


def _caption(one: AttentionMap, layer: int, head: int) -> str:
    """What stands below a map: what tells it from the others, and is short."""
    if len(one.heads) > 1:
        return f"head {one.heads[head]}"
    if len(one.layers) > 1:
        return f"layer {one.layers[layer]}"
    return one.name(layer, head) if one.heads == (MEAN,) else ""


def _draw_map(axes: Axes, weights: np.ndarray) -> AxesImage:
    image = axes.imshow(weights, cmap=COLOURMAP, vmin=0, vmax=1, interpolation="nearest", aspect="equal")
    # Not as a grid of minor ticks, each of which is an object that takes a millisecond.
    rows, columns = (np.arange(n + 1) - 0.5 for n in weights.shape)
    axes.hlines(rows, columns[0], columns[-1], color="#E4E4E4", linewidth=0.5)
    axes.vlines(columns, rows[0], rows[-1], color="#E4E4E4", linewidth=0.5)
    axes.spines[:].set(visible=True, color="#B0B0B0", linewidth=0.5)
    return image


def _label(axes: Axes, source: Sequence[str], target: Sequence[str], size: float) -> None:
    """Words above and to the left, in points; none where a neighbour already shows them."""
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(source)), source, rotation=90, size=size)
    axes.set_yticks(range(len(target)), target, size=size)
    axes.tick_params(length=0, pad=3)
    for text in axes.get_xticklabels():  # on one line, whatever hangs below it
        text.set(rotation_mode="anchor", ha="left", va="center_baseline")
