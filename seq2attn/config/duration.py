"""Durations in epochs, updates or time: `3 epochs`, `500 updates`, `40 minutes`."""

import re
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

from seq2attn.config.base import to_list

Unit = Literal["updates", "epochs", "seconds", "minutes", "hours"]
SECONDS = {"seconds": 1, "minutes": 60, "hours": 3600}
PATTERN = r"^\s*(\d+(?:\.\d+)?)\s+(update|epoch|second|minute|hour)s?\s*$"


class Duration(NamedTuple):
    """A number of updates or epochs, or a time."""

    value: float
    unit: Unit

    @property
    def seconds(self) -> float:
        """The duration in seconds. It must be a time."""
        return self.value * SECONDS[self.unit]

    def __str__(self) -> str:
        number = np.format_float_positional(self.value, trim="-")  # exact, and without the exponent of 1e+06
        return f"{number} {self.unit if self.value != 1 else self.unit[:-1]}"


def _parse(value: Any) -> Any:
    if isinstance(value, Duration):
        return value
    match = re.match(PATTERN, value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("a duration is a number and a unit, like `3 epochs`, `500 updates` or `40 minutes`")
    if float(match[1]) <= 0:
        raise ValueError("a duration should be longer than 0")
    return Duration(float(match[1]), f"{match[2]}s")  # type: ignore[arg-type]


def _check_time(duration: Duration) -> Duration:
    if duration.unit not in SECONDS:
        raise ValueError("expected a time, such as `175 minutes`")
    return duration


DurationField = Annotated[
    Duration,
    BeforeValidator(_parse),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": PATTERN}),
]
"""A config field with a duration."""
ReportField = Annotated[
    DurationField,
    BeforeValidator(lambda value: f"{value} updates" if type(value) is int else value),
    WithJsonSchema({"anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "string", "pattern": PATTERN}]}),
]
"""A config field with a duration, or with a number of updates alone."""
TimeField = Annotated[DurationField, AfterValidator(_check_time)]
"""A config field with a duration in seconds, minutes or hours."""


OneOrMore = BeforeValidator(to_list, json_schema_input_type=DurationField | list[DurationField])
"""A single duration in the place of a list of one."""
