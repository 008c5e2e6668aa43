"""What an examination finds: how far two ways of computing the same thing are apart, and where."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

WORD = 1e-3
"""How far log-probabilities of a word may be apart. In float32 they are right to about 1e-5."""
PART = 1e-4
"""How far the numbers inside a model may be apart, as a share of the largest of them (at least of 1)."""


class DoesNotApplyError(Exception):
    """A law that says nothing about this model, and why."""


@dataclass(frozen=True)
class Found:
    """The largest deviation, what is allowed, and the number of the sentence where it was largest."""

    largest: float
    tolerance: float
    where: int | None = None
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether the law does."""
        return self.largest <= self.tolerance


@dataclass(frozen=True)
class Row:
    """What one law came to. Without `found` it does not apply, or could not be tried at all."""

    law: str
    found: Found | None
    seconds: float
    why: str = ""
    broke: bool = False  # trying it ended in an error

    @property
    def fails(self) -> bool:
        """Whether the law was seen to be broken."""
        return self.broke or (self.found is not None and not self.found.holds)

    @property
    def note(self) -> str:
        """What does not fit into the cells of a table."""
        return self.found.note if self.found else self.why


def worst(deviations: Iterable[tuple[int | None, float]], tolerance: float, note: str = "") -> Found:
    """Of the deviations at numbered sentences the largest; what is no number is farther off than any."""
    largest, where = -1.0, None
    for number, deviation in deviations:
        deviation = math.inf if math.isnan(deviation) else deviation
        if deviation > largest:
            largest, where = deviation, number
    return Found(max(largest, 0.0), tolerance, where, note)


def apart(one: Tensor, other: Tensor) -> float:
    """The largest difference between numbers of the same place; equal infinities are none."""
    if one.shape != other.shape:
        return math.inf
    if not one.numel():
        return 0.0
    gaps = torch.where(one == other, 0.0, (one.double() - other.double()).abs())
    return float(gaps.max())  # what is no number stays none


def apart_in_share(one: Tensor, exact: Tensor) -> float:
    """`apart`, as a share of the largest number, or of 1 where all are smaller."""
    return apart(one, exact) / max(1.0, float(exact.abs().max())) if exact.numel() else 0.0


def table(rows: Iterable[Row]) -> str:
    """All that was found, a law a line, and below it what does not fit into a cell."""
    rows = list(rows)
    lines = [("check", "", "largest", "allowed", "sentence", "time"), *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = [
        "  ".join(
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    notes = [f"{row.law}: {row.note}" for row in rows if row.note]
    return "\n".join(line.rstrip() for line in [*shown, *([""] if notes else []), *notes])


def _cells(row: Row) -> tuple[str, ...]:
    said = "FAIL" if row.fails else "pass" if row.found else "-"
    if (found := row.found) is None:
        return row.law, said, "", "", "", f"{row.seconds:.1f} s"
    where = "" if found.where is None else str(found.where)
    return row.law, said, f"{found.largest:.1e}", f"{found.tolerance:.0e}", where, f"{row.seconds:.1f} s"
