"""Statistics over seeds, compared with NumPy's."""

import numpy as np
import pytest

from seq2attn.sweep.leaderboard import SeedStatistics


def test_statistics_are_those_of_numpy():
    values = [1.0, 2.0, 4.0, 8.0]
    statistics = SeedStatistics.from_values(values)
    assert statistics == SeedStatistics(np.mean(values), pytest.approx(np.std(values, ddof=1)), 1.0, 8.0)
    assert SeedStatistics.from_values([3.0]) == SeedStatistics(3.0, None, 3.0, 3.0)
