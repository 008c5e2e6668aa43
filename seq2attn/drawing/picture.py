"""Attention weights as a picture (Bahdanau et al. 2015, figure 3), one map a head."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from seq2attn.drawing.figure import figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

WIDEST = 14.0  # inches of all maps beside each other, as long as the words stay legible
LETTER = 0.08  # inches, roughly: what does not fit is made room for when the file is written
COLOURMAP = "Blues"  # one hue from white: nothing looks like nothing, and nobody needs to tell hues apart


def draw_alignment(source: Sequence[str], target: Sequence[str], weights: np.ndarray, path: Path) -> None:
    """Draw `weights` [target, source] or [heads, target, source] to a PNG, SVG or PDF file.

    Raises UserError if matplotlib is missing or the suffix is another, ValueError if the sizes do not fit.
    """
    maps = weights[None] if weights.ndim == 2 else weights
    if maps.ndim != 3 or maps.shape[1:] != (len(target), len(source)):
        raise ValueError(f"weights are {weights.shape}, not [{len(target)} target, {len(source)} source]")
    heads = len(maps)
    columns = math.ceil(math.sqrt(heads))
    rows = math.ceil(heads / columns)
    cell = min(0.3 if heads == 1 else 0.22, max(0.12, WIDEST / (columns * len(source))))
    width = columns * (len(source) * cell + 0.25) + LETTER * max(map(len, target)) + 1
    height = rows * (len(target) * cell + 0.35) + LETTER * max(map(len, source))

    with figure(path, width=width, height=height) as canvas:
        grid = canvas.subplots(rows, columns, squeeze=False)
        for axes in grid.flat[heads:]:
            axes.remove()
        used = list(grid.flat[:heads])
        for head, axes in enumerate(used):
            image = _draw_map(axes, maps[head])
            if heads > 1:
                axes.set_xlabel(f"head {head + 1}", labelpad=3)
            size = min(9.0, 0.75 * cell * 72)
            _label(axes, source if head < columns else (), target if head % columns == 0 else (), size)
        shrink = min(1.0, 2 / (rows * len(target) * cell))  # to two inches at most
        bar = canvas.colorbar(
            image, ax=used, shrink=shrink, aspect=16, pad=0.02, ticks=[0, 0.5, 1], label="weight"
        )
        bar.outline.set_visible(False)


def _draw_map(axes: Axes, weights: np.ndarray) -> AxesImage:
    image = axes.imshow(weights, cmap=COLOURMAP, vmin=0, vmax=1, interpolation="nearest", aspect="equal")
    axes.set_xticks(np.arange(-0.5, weights.shape[1]), minor=True)
    axes.set_yticks(np.arange(-0.5, weights.shape[0]), minor=True)
    axes.grid(which="minor", color="#E4E4E4", linewidth=0.5)
    axes.tick_params(which="both", length=0)
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
