"""The whole of a sweep's file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PositiveInt

from seq2attn.config.base import Config, FieldError, InputPath
from seq2attn.config.hints import suggest_or_list
from seq2attn.sweep.grid import Axes, Choices, Pattern, expand, matches

OURS = ("run_dir", "training.seed")
"""What each training of a sweep has for itself."""
NOT_YOURS = "`run_dir` and `training.seed` are for the sweep to set; see `folder` and `seeds`"


def trial_name(choices: Choices) -> str:
    """What a trial is called: its labels in the order of the axes, where they apply."""
    return "+".join(choices.values())


def _base_is_there(base: Path) -> list[FieldError]:
    return [] if base.is_file() else [FieldError("base", f"there is no file {base}")]


def _seeds_differ(seeds: Sequence[int]) -> list[FieldError]:
    return [] if len({*seeds}) == len(seeds) else [FieldError("seeds", "a seed is here twice")]


def _changes_fit(changes: Mapping[str, Any]) -> list[FieldError]:
    return [FieldError("changes", NOT_YOURS)] if any(_sets(None, changes, ours) for ours in OURS) else []


def _choices_fit(axes: Axes) -> list[FieldError]:
    mistakes = []
    for name, axis in axes.items():
        if axis.at is None and not all(isinstance(choice, Mapping) for choice in axis.choices.values()):
            message = "a choice should be a mapping, or the axis should say `at` which key it stands"
            mistakes.append(FieldError(f"axes.{name}.choices", message))
        if any(_sets(axis.at, choice, ours) for choice in axis.choices.values() for ours in OURS):
            mistakes.append(FieldError(f"axes.{name}", NOT_YOURS))
    return mistakes


def _sets(at: str | None, choice: Any, key: str) -> bool:
    """Whether a choice says anything about `key`."""
    names, where = key.split("."), at.split(".") if at else []
    if names[: len(where)] != where[: len(names)]:
        return False
    for name in names[len(where) :]:
        if not isinstance(choice, Mapping) or name not in choice:
            return False
        choice = choice[name]
    return True


def _patterns_fit(
    axes: Axes, include: Sequence[Pattern] | None, exclude: Sequence[Pattern], baseline: Pattern
) -> list[FieldError]:
    """Patterns name axes and labels that there are, some trial is left, and the baseline is one of them."""
    mistakes = []
    for at, (name, axis) in enumerate(axes.items()):
        mistakes += _unknown(axis.exclude_when, dict(list(axes.items())[:at]), f"axes.{name}.exclude_when")
    for key, patterns in (("include", include or ()), ("exclude", exclude)):
        for number, pattern in enumerate(patterns):
            mistakes += _unknown(pattern, axes, f"{key}.{number}")
    mistakes += _unknown(baseline, axes, "baseline")
    if mistakes:
        return mistakes
    trials = expand(axes, include, exclude)
    if not trials:
        return [FieldError("axes", "no trial is left; see `include` and `exclude`")]
    if len(named := {trial_name(trial) for trial in trials}) < len(trials):
        return [FieldError("axes", f"two trials of {len(trials)} have the same name ({len(named)} have not)")]
    meant = [trial for trial in trials if matches(baseline, trial)]
    if len(meant) != 1:
        some = ", ".join(trial_name(trial) for trial in (meant or trials)[:4])
        say = f"means {len(meant)} trials ({some} ...)" if meant else f"is none of the trials; there are {some} ..."
        return [FieldError("baseline", f"{say}; it should be one")]
    return []


def _unknown(pattern: Pattern, axes: Axes, key: str) -> list[FieldError]:
    mistakes = []
    for name, labels in pattern.items():
        if name not in axes:
            above = " above it" if key.endswith("exclude_when") else ""
            mistakes.append(
                FieldError(f"{key}.{name}", f"there is no axis `{name}`{above}{suggest_or_list(name, axes)}")
            )
            continue
        for label in labels:
            if label not in axes[name].choices:
                hint = suggest_or_list(label, axes[name].choices)
                mistakes.append(FieldError(f"{key}.{name}", f"`{name}` has no choice `{label}`{hint}"))
    return mistakes


class SweepConfig(Config):
    """An experiment, and what its trials change in it."""

    rules = (_base_is_there, _seeds_differ, _changes_fit, _choices_fit, _patterns_fit)

    base: InputPath
    """The config of an experiment, whose test sets the trials are measured on."""
    folder: Path
    """Where all that the sweep makes is kept, relative to the working directory."""
    changes: dict[str, Any] = Field(default_factory=dict)
    """What all trials change in the base."""
    axes: Axes = Field(min_length=1)
    """What the trials differ in, each a name; later ones are laid on what earlier ones chose."""
    seeds: tuple[Annotated[int, Field(ge=0, lt=2**63)], ...] = Field((1, 2), min_length=1)
    """Each trial is trained with each of them."""
    include: tuple[Pattern, ...] | None = None
    """Which trials to take, where not all: those that one of the patterns means."""
    exclude: tuple[Pattern, ...] = ()
    """Which trials to leave out."""
    baseline: Pattern
    """The trial that all others are compared with."""
    jobs: PositiveInt = 1
    """Trainings side by side; they share out the cores."""
