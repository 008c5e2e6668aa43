"""Color scales of attention maps: the weight that has the full color."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

ColorScale = Literal["max", "row", "0-1"]
DEFAULT_COLOR_SCALE: ColorScale = "max"  # weights are small in long sentences and means of heads

LEGENDS: dict[ColorScale, str] = {"max": "weight", "row": "weight/row max", "0-1": "weight"}


@dataclass(frozen=True)
class ScaledWeights:
    """Weights on a color scale, and its legend."""

    values: NDArray[np.float32]  # [layers, heads, queries, keys], from 0 to `full`
    full: float  # the value with the full color
    legend: str  # unit of the values

    @property
    def shares(self) -> NDArray[np.float32]:
        """Shares of the full color, from 0 to 1, of the shape of `values`."""
        return np.clip(self.values / self.full, 0, 1)

    def number(self, share: float) -> str:
        """The value at a share of the full color, for a legend."""
        return f"{share * self.full:.2g}"


def scale_weights(weights: NDArray[np.float32], scale: ColorScale) -> ScaledWeights:
    """Weights [layers, heads, queries, keys] of all maps of a picture, on one color scale.

    The full color is the largest weight (`max`), the largest weight of each row (`row`), or 1 (`0-1`).
    """
    if scale == "row":
        tops: NDArray[np.float32] = weights.max(-1, keepdims=True)
        return ScaledWeights((weights / np.where(tops > 0, tops, 1)).astype(np.float32), 1.0, LEGENDS[scale])
    largest = float(weights.max())
    full = largest if scale == "max" and largest > 0 else 1.0
    return ScaledWeights(weights, full, LEGENDS[scale])
