"""Translation of a file in batches of similar lengths, with times of single sentences."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

WARM = 3
"""Sentences that are translated before the timing."""
Row = TypeVar("Row")


def translate_all(
    rows: Sequence[list[Row]], translate: Callable[[list[list[Row]]], list[str]], options: argparse.Namespace
) -> None:
    """Write a line per row, in order; `options` has `batch`, `output` and `times`."""
    order = sorted(range(len(rows)), key=lambda row: -len(rows[row]))
    if options.times:
        order = list(range(len(rows)))
        for row in order[:WARM]:
            translate([rows[row]])
    output, milliseconds = [""] * len(rows), list[float]()
    for start in range(0, len(rows), options.batch):
        numbers = order[start : start + options.batch]
        began = time.perf_counter()
        lines = translate([rows[number] for number in numbers])
        milliseconds.append(1000 * (time.perf_counter() - began))
        for number, line in zip(numbers, lines, strict=True):
            output[number] = line
    options.output.write_text("".join(f"{line}\n" for line in output), "utf-8")
    if options.times:
        options.times.write_text(json.dumps(milliseconds), "utf-8")
