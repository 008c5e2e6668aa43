"""Durations as people write them: `3 epochs`, `500 updates`, `40 minutes`; and times of a clock: `2h55m`."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

Unit = Literal["updates", "epochs", "seconds", "minutes", "hours"]
SECONDS = {"seconds": 1, "minutes": 60, "hours": 3600}
PATTERN = r"^\s*(\d+(?:\.\d+)?)\s+(update|epoch|second|minute|hour)s?\s*$"


class Duration(NamedTuple):
    """How long, in one unit."""

    value: float
    unit: Unit

    def __str__(self) -> str:
        return f"{self.value:g} {self.unit if self.value != 1 else self.unit[:-1]}"


def _read(value: Any) -> Any:
    if isinstance(value, Duration):
        return value
    match = re.match(PATTERN, value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("a duration is a number and a unit, like `3 epochs`, `500 updates` or `40 minutes`")
    amount = Duration(float(match[1]), f"{match[2]}s")  # type: ignore[arg-type]
    if amount.value <= 0:
        raise ValueError("a duration is longer than nothing")
    return amount


DurationField = Annotated[
    Duration,
    BeforeValidator(_read),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": PATTERN}),
]
"""A number of updates or epochs, or a time."""


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple) and not isinstance(value, Duration) else [value]


OneOrMore = BeforeValidator(_listed, json_schema_input_type=DurationField | list[DurationField])
"""A single duration in the place of a list of one."""

TIME_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
TIME_PATTERN = r"^\s*(?=\d)(?:(\d{1,9})d)?\s*(?:(\d{1,9})h)?\s*(?:(\d{1,9})m)?\s*(?:(\d{1,9})s)?\s*$"


def _read_time(value: Any) -> Any:
    match = re.match(TIME_PATTERN, value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("a time is written like `2h55m`, `90m` or `1d12h`")
    return sum(int(number or 0) * size for number, size in zip(match.groups(), TIME_UNITS.values(), strict=True))


def _write_time(seconds: int) -> str:
    parts = []
    for unit, size in TIME_UNITS.items():
        number, seconds = divmod(seconds, size)
        parts += [f"{number}{unit}"] if number else []
    return "".join(parts) or "0s"


WallTimeField = Annotated[
    int,
    BeforeValidator(_read_time),
    PlainSerializer(_write_time, return_type=str),
    WithJsonSchema({"type": "string", "pattern": TIME_PATTERN}),
]
"""Seconds on the clock."""
