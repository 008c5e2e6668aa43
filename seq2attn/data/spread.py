"""How numbers are spread, such as the lengths of lines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Spread:
    """Mean, percentiles, and the greatest with the line it is from, counted from 1; all 0 where there is no line."""

    mean: float
    p1: float
    median: float
    p95: float
    p99: float
    most: float
    line: int  # the first with the most

    @classmethod
    def of(cls, numbers: NDArray[np.float64] | NDArray[np.int64]) -> Spread:
        """Of a number a line, [L]; a line without one has `nan`."""
        known = numbers[~np.isnan(numbers)]
        if not len(known):
            return cls(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0)
        p1, median, p95, p99 = np.percentile(known, (1, 50, 95, 99)).tolist()
        line = int(np.nanargmax(numbers))
        return cls(float(known.mean()), p1, median, p95, p99, float(numbers[line]), line + 1)
