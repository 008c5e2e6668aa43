"""Translating all of a file in batches alike in length, and how long each sentence took where they come alone."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

WARM = 3
"""Sentences that are translated once before any is timed."""
Row = TypeVar("Row")


def translate_all(
    rows: Sequence[list[Row]], translate: Callable[[list[list[Row]]], list[str]], options: argparse.Namespace
) -> None:
    """Write a line for each row, in their order; `options` has `batch`, `output` and `times`."""
    order = sorted(range(len(rows)), key=lambda row: -len(rows[row]))
    if options.times:
        order = list(range(len(rows)))
        for row in order[:WARM]:
            translate([rows[row]])
    said, milliseconds = [""] * len(rows), list[float]()
    for start in range(0, len(rows), options.batch):
        numbers = order[start : start + options.batch]
        began = time.perf_counter()
        found = translate([rows[number] for number in numbers])
        milliseconds.append(1000 * (time.perf_counter() - began))
        for number, line in zip(numbers, found, strict=True):
            said[number] = line
    options.output.write_text("".join(f"{line}\n" for line in said), "utf-8")
    if options.times:
        options.times.write_text(json.dumps(milliseconds), "utf-8")
