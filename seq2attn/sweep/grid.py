"""The grid of a sweep: axes with labelled choices, and which of their combinations are its trials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field, StringConstraints

from seq2attn.config.base import Config


def _as_text(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else value


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
"""What an axis is called."""
Label = Annotated[str, BeforeValidator(_as_text), StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
"""What a choice is called; it becomes part of a folder's name."""
Pattern = dict[str, Annotated[tuple[Label, ...], BeforeValidator(_as_list)]]
"""Trials, by a label or a list of labels for some of the axes. A trial without one of these axes is not meant."""
Choices: TypeAlias = dict[str, str]
"""What a trial is made of: a label for each axis that applies to it."""


class AxisConfig(Config):
    """One thing that the trials differ in."""

    at: str | None = None
    """Where in the experiment the choices stand, e.g. model.encoder; without it each is laid on the whole of it."""
    choices: dict[Label, Any] = Field(min_length=1)
    """By a label each: what is laid on the experiment at that place, as a file is on one it extends; {} is nothing."""
    exclude_when: Pattern = Field(default_factory=dict)
    """The axis does not apply to trials with these choices of axes above it."""


Axes: TypeAlias = dict[Name, AxisConfig]


def matches(pattern: Mapping[str, Sequence[str]], choices: Mapping[str, str]) -> bool:
    """Whether a pattern means a trial with these choices."""
    return all(choices.get(axis) in labels for axis, labels in pattern.items())


def expand(axes: Axes, include: Sequence[Pattern] | None = None, exclude: Sequence[Pattern] = ()) -> list[Choices]:
    """The trials of a grid, the last axis varying fastest: those that `include` matches and `exclude` does not."""
    return [
        choices
        for choices in _product(list(axes.items()), {})
        if (include is None or any(matches(pattern, choices) for pattern in include))
        and not any(matches(pattern, choices) for pattern in exclude)
    ]


def _product(axes: list[tuple[str, AxisConfig]], chosen: Choices) -> Iterator[Choices]:
    if not axes:
        yield chosen
        return
    (name, axis), *others = axes
    if axis.exclude_when and matches(axis.exclude_when, chosen):
        yield from _product(others, chosen)
        return
    for label in axis.choices:
        yield from _product(others, {**chosen, name: label})
