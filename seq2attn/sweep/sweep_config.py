"""Config of a sweep: a base experiment, the axes in which its trials differ, and the combinations that are trained."""

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import BeforeValidator, Field, PositiveInt

from seq2attn.config.base import Config, FieldError, InputPath, PathString, Rule, RunPath, to_list
from seq2attn.config.hints import suggest_or_list

AxisName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
Label = Annotated[str, Field(coerce_numbers_to_str=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
"""Name of a choice; part of the name of a folder."""
Choices: TypeAlias = dict[AxisName, Label]
"""A trial: a label for each axis that applies to it."""
Labels = Annotated[tuple[Label, ...], BeforeValidator(to_list), Field(min_length=1)]
SubGrid = Annotated[dict[AxisName, Labels], Field(min_length=1)]
"""All combinations of the labels of some axes; the other axes do not apply."""


class AxisConfig(Config):
    """An axis of the grid: one part of the experiment, and its alternatives."""

    at: str | None = None
    """Key of the experiment that the choices are values of, such as model.encoder; unless given, the experiment."""
    choices: dict[Label, Any] = Field(min_length=1)
    """Values by label, each merged into the experiment as a file into the one it extends; {} changes nothing. Without
    `at`, a choice may be the path of a config, to which `changes` are made as to the base."""


Axes: TypeAlias = dict[AxisName, AxisConfig]


def trial_name(choices: Choices) -> str:
    """The labels of a trial in the order of the axes."""
    return "+".join(choices.values())


def expand(axes: Axes, grids: Sequence[Mapping[str, Iterable[str]]] | None) -> list[Choices]:
    """The trials of all sub-grids, each once; unless given, of one grid of all axes. The last axis varies fastest."""
    trials = list[Choices]()
    for grid in [{name: axis.choices for name, axis in axes.items()}] if grids is None else grids:
        names = [name for name in axes if name in grid]
        for labels in itertools.product(*(grid[name] for name in names)):
            choices = dict(zip(names, labels, strict=True))
            if choices not in trials:
                trials.append(choices)
    return trials


def _check_base(base: Path) -> list[FieldError]:
    return [] if base.is_file() else [FieldError("base", f"there is no file {base}")]


def _check_seeds(seeds: Sequence[int]) -> list[FieldError]:
    return [] if len({*seeds}) == len(seeds) else [FieldError("seeds", "a seed is repeated")]


RESERVED = "`run_dir` and `training.seed` are set by the sweep; see `folder` and `seeds`"


def _sets_reserved_key(changes: Mapping[str, Any]) -> bool:
    training = changes.get("training")
    return "run_dir" in changes or (isinstance(training, Mapping) and "seed" in training)


def _check_changes(changes: Mapping[str, Any]) -> list[FieldError]:
    return [FieldError("changes", RESERVED)] if _sets_reserved_key(changes) else []


def is_config(choice: Any) -> bool:
    """True for the path of a config."""
    return isinstance(choice, PathString) and choice.endswith((".yaml", ".yml"))


def _check_choices(axes: Axes) -> list[FieldError]:
    mistakes = []
    for name, axis in axes.items():
        keys = axis.at.split(".")[::-1] if axis.at else []
        values = [value for value in axis.choices.values() if axis.at or not is_config(value)]
        choices = [functools.reduce(lambda value, key: {key: value}, keys, value) for value in values]
        if not all(isinstance(choice, Mapping) for choice in choices):
            message = "a choice should be a mapping, the path of a .yaml file, or a value of the key `at` of the axis"
            mistakes.append(FieldError(f"axes.{name}.choices", message))
        elif any(map(_sets_reserved_key, choices)):
            mistakes.append(FieldError(f"axes.{name}", RESERVED))
    return mistakes


def _check_trials(axes: Axes, trials: Sequence[SubGrid] | None, baseline: Choices) -> list[FieldError]:
    """Axes and labels exist, trials have different names, and the baseline is one of them."""
    mistakes = [mistake for i, grid in enumerate(trials or ()) for mistake in _unknown(grid, axes, f"trials.{i}")]
    mistakes += _unknown({name: [label] for name, label in baseline.items()}, axes, "baseline")
    if mistakes:
        return mistakes
    expanded = expand(axes, trials)
    names = [trial_name(trial) for trial in expanded]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        return [FieldError("axes", f"two trials have the name {repeated}; change a label")]
    if baseline not in expanded:
        return [FieldError("baseline", f"is none of the {len(names)} trials: {', '.join(names[:4])} ...")]
    return []


def _unknown(grid: Mapping[str, Iterable[str]], axes: Axes, key: str) -> list[FieldError]:
    mistakes = []
    for name, labels in grid.items():
        if name not in axes:
            mistakes.append(FieldError(f"{key}.{name}", f"there is no axis `{name}`{suggest_or_list(name, axes)}"))
            continue
        choices = axes[name].choices
        mistakes += [
            FieldError(f"{key}.{name}", f"`{name}` has no choice `{label}`{suggest_or_list(label, choices)}")
            for label in labels
            if label not in choices
        ]
    return mistakes


class SweepConfig(Config):
    """A grid of trainings: a base experiment and its variations."""

    rules: ClassVar[Sequence[Rule]] = (_check_base, _check_seeds, _check_changes, _check_choices, _check_trials)
    command: ClassVar[str] = "sweep"
    """The command that trains it."""

    base: InputPath
    """Config of an experiment; the trials are evaluated on its test sets."""
    folder: RunPath
    """Output folder of the sweep, relative to the working directory."""
    changes: dict[str, Any] = Field(default_factory=dict)
    """Changes to the base in all trials."""
    axes: Axes = Field(min_length=1)
    """Axes by name; later ones are merged into the result of earlier ones."""
    trials: Annotated[tuple[SubGrid, ...], Field(min_length=1)] | None = None
    """Sub-grids to train: labels of axes. Unless given, all combinations of all axes."""
    seeds: tuple[Annotated[int, Field(ge=0, lt=2**63)], ...] = Field((1, 2), min_length=1)
    """Seeds that each trial is trained with."""
    baseline: Choices
    """The trial that all others are compared with."""
    jobs: PositiveInt = 1
    """Number of simultaneous trainings; they share the CPU cores."""

    def configs(self, choices: Choices) -> list[Path]:
        """The files of the choices that are configs."""
        axes = ((self.axes[name], label) for name, label in choices.items())
        values = [axis.choices[label] for axis, label in axes if axis.at is None]
        return [value.folder / Path(value).expanduser() for value in values if is_config(value)]
