"""Durations as people write them: `3 epochs`, `500 updates`, `40 minutes`; and times of a clock: `2h55m`."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

Unit = Literal["updates", "epochs", "seconds", "minutes", "hours"]
SECONDS = {"seconds": 1, "minutes": 60, "hours": 3600}
PATTERN = r"^\s*(\d+(?:\.\d+)?)\s+(update|epoch|second|minute|hour)s?\s*$"


class Amount(NamedTuple):
    """How long, in one unit."""

    number: float
    unit: Unit

    def __str__(self) -> str:
        return f"{self.number:g} {self.unit if self.number != 1 else self.unit[:-1]}"


def _read(value: Any) -> Any:
    if isinstance(value, Amount):
        return value
    match = re.match(PATTERN, value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("a duration is a number and a unit, like `3 epochs`, `500 updates` or `40 minutes`")
    amount = Amount(float(match[1]), f"{match[2]}s")  # type: ignore[arg-type]
    if amount.number <= 0:
        raise ValueError("a duration is longer than nothing")
    return amount


Duration = Annotated[
    Amount,
    BeforeValidator(_read),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": PATTERN}),
]
"""A number of updates or epochs, or a time."""


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple) and not isinstance(value, Amount) else [value]


OneOrMore = BeforeValidator(_listed, json_schema_input_type=Duration | list[Duration])
"""A single duration in the place of a list of one."""

PARTS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
TIME = r"^\s*(?=\d)(?:(\d{1,9})d)?\s*(?:(\d{1,9})h)?\s*(?:(\d{1,9})m)?\s*(?:(\d{1,9})s)?\s*$"


def _read_time(value: Any) -> Any:
    match = re.match(TIME, value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("a time is written like `2h55m`, `90m` or `1d12h`")
    return sum(int(number or 0) * size for number, size in zip(match.groups(), PARTS.values(), strict=True))


def _write_time(seconds: int) -> str:
    parts = []
    for unit, size in PARTS.items():
        number, seconds = divmod(seconds, size)
        parts += [f"{number}{unit}"] if number else []
    return "".join(parts) or "0s"


Time = Annotated[
    int,
    BeforeValidator(_read_time),
    PlainSerializer(_write_time, return_type=str),
    WithJsonSchema({"type": "string", "pattern": TIME}),
]
"""Seconds on the clock."""
