"""Tables for `parametrize`, of which some rows are quick and the others are for the slow tests."""

import random
from collections.abc import Container, Iterable
from typing import Any

import pytest


def slow_but(quick: Container[Any], values: Iterable[Any]) -> list[Any]:
    """All values; those that are not in `quick` are slow."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.slow) for value in values]


def covering(rows: Iterable[tuple[Any, ...]], *, left_out: Container[Any] = ()) -> list[Any]:
    """All rows; some are quick that together have each value of each column.

    Rows with a value that is in `left_out` are slow.
    """
    listed = list(rows)
    covered, quick = set[tuple[int, Any]](), set[int]()
    for number in random.Random(0).sample(range(len(listed)), len(listed)):
        values = {*enumerate(listed[number])}
        if not values <= covered and not any(value in left_out for value in listed[number]):
            covered |= values
            quick.add(number)
    slow = pytest.mark.slow
    return [pytest.param(*row, marks=() if number in quick else slow) for number, row in enumerate(listed)]
