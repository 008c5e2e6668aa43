"""From a sweep's file to the experiments of its trials, with every mistake in any of them at its place."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError
from yaml import MappingNode, Node, ScalarNode

from seq2attn.config.explain import explain
from seq2attn.config.load import load_with_locations, read_merged
from seq2attn.config.overrides import override
from seq2attn.config.source_location import Diagnostic, child, format_diagnostics
from seq2attn.config.yaml_reader import merge, to_python
from seq2attn.errors import ConfigError
from seq2attn.experiment import ExperimentConfig
from seq2attn.models.summary import build_on_meta_device
from seq2attn.sweep.config import SweepConfig, trial_name
from seq2attn.sweep.grid import Choices, expand, matches

MAP = "tag:yaml.org,2002:map"
TEXT = "tag:yaml.org,2002:str"


@dataclass(frozen=True)
class TrialRun:
    """One trial with one seed: a run directory."""

    trial: Trial
    seed: int

    @cached_property
    def experiment(self) -> ExperimentConfig:
        """The trial's, with a seed and a run directory of its own."""
        base = self.trial.experiment
        training = base.training.model_copy(update={"seed": self.seed})
        return base.model_copy(update={"run_dir": base.run_dir / f"seed-{self.seed}", "training": training})

    @property
    def folder(self) -> Path:
        """The run directory."""
        return self.experiment.run_dir

    def __str__(self) -> str:
        return f"{self.trial.name} seed {self.seed}"


@dataclass(frozen=True)
class Trial:
    """One combination of choices."""

    choices: Choices
    experiment: ExperimentConfig  # its `run_dir` is the folder that the runs of all seeds are in

    @property
    def name(self) -> str:
        """Its labels."""
        return trial_name(self.choices)

    def runs(self, seeds: Sequence[int]) -> list[TrialRun]:
        """One for each seed."""
        return [TrialRun(self, seed) for seed in seeds]


@dataclass(frozen=True)
class SweepPlan:
    """A sweep that is sound, and its trials."""

    path: Path
    sweep: SweepConfig
    trials: tuple[Trial, ...]

    @property
    def baseline(self) -> Trial:
        """The trial that all others are compared with."""
        return next(trial for trial in self.trials if matches(self.sweep.baseline, trial.choices))

    @property
    def runs(self) -> list[TrialRun]:
        """All of them, a seed after the other, so that a sweep half done has all trials."""
        return [TrialRun(trial, seed) for seed in self.sweep.seeds for trial in self.trials]


def load_plan(path: Path, overrides: Sequence[str] = ()) -> SweepPlan:
    """The sweep in a file, with the experiment of each trial.

    Raises:
        ConfigError: all mistakes at once, each with its place and the trials that it is in.
    """
    sweep, tree = load_with_locations(path, SweepConfig, overrides)
    base, faults = read_merged(sweep.base)
    if faults:
        raise format_diagnostics(sweep.base, faults)
    if isinstance(changes := child(tree, "changes")[1], MappingNode):
        base, dropped = override(base, changes, ExperimentConfig)
        for message in dropped:
            print(message, file=sys.stderr)
    found: dict[str, tuple[Diagnostic, list[str]]] = {}
    trials: list[Trial] = []
    for choices in expand(sweep.axes, sweep.include, sweep.exclude):
        laid = _laid(base, tree, choices)
        try:
            experiment = ExperimentConfig.model_validate(to_python(laid))
        except ValidationError as error:
            for fault in explain(error, ExperimentConfig, laid)[0]:
                found.setdefault(str(fault), (fault, []))[1].append(trial_name(choices))
            continue
        run = sweep.folder / "trials" / trial_name(choices)
        trials.append(Trial(choices, experiment.model_copy(update={"run_dir": run})))
    if found:
        raise format_diagnostics(path, [_of_cells(fault, names) for fault, names in found.values()])
    plan = SweepPlan(path, sweep, tuple(trials))
    _check(plan)
    return plan


def _laid(base: MappingNode, sweep: MappingNode, choices: Choices) -> MappingNode:
    """The YAML of a trial: each value still knows in which file it stands."""
    laid = base
    axes = child(sweep, "axes")[1]
    for name, label in choices.items():
        axis = child(axes, name)[1] if axes else None
        where = child(axis, "at")[1] if axis else None
        options = child(axis, "choices")[1] if axis else None
        choice = child(options, label)[1] if options else None
        if choice is None or choice.value == []:
            continue  # a choice of nothing is to leave all as it is, also where the file says nothing yet
        at = where if isinstance(where, ScalarNode) and where.tag == TEXT else None
        laid = merge(laid, _below(at, choice))  # type: ignore[assignment]  # as the sweep is sound
    return laid


def _below(at: ScalarNode | None, choice: Node) -> Node:
    """`choice` in as many mappings as `at` has names."""
    for name in reversed(at.value.split(".") if at else []):
        place = at.start_mark, at.end_mark  # type: ignore[union-attr]
        key = ScalarNode(TEXT, name, *place)
        choice = MappingNode(MAP, [(key, choice)], *place, flow_style=True)
    return choice


def _of_cells(fault: Diagnostic, names: list[str]) -> Diagnostic:
    others = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return Diagnostic(f"{fault.message} (in the trial {names[0]}{others})", fault.start, fault.end)


def _check(plan: SweepPlan) -> None:
    """What no single config can tell: parts that refuse each other, trials alike, and what cannot be compared.

    Raises ConfigError.
    """
    mistakes: list[str] = []
    evaluation = plan.trials[0].experiment.evaluation
    if "bleu" not in (evaluation.metrics or ["bleu"]):
        mistakes.append(f"{plan.path}: `evaluation.metrics` needs `bleu`, by which the trials are compared")
    seen: dict[str, Trial] = {}
    for trial in plan.trials:
        try:
            build_on_meta_device(trial.experiment.model, trial.experiment.tokenizer)
        except ConfigError as error:
            mistakes.append(f"{plan.path}: the trial {trial.name}: {error}")
        same = seen.setdefault(trial.experiment.model_dump_json(exclude={"run_dir"}), trial)
        if same is not trial:
            mistakes.append(
                f"{plan.path}: the trials {same.name} and {trial.name} are the same experiment;"
                " leave one out by `exclude`, or by `exclude_when` of the axis that does not matter to them"
            )
        if trial.experiment.evaluation != evaluation:
            mistakes.append(
                f"{plan.path}: the trials {plan.trials[0].name} and {trial.name} have different `evaluation` settings,"
                " so they cannot be compared"
            )
        if not trial.experiment.data.test:
            mistakes.append(f"{plan.path}: the trial {trial.name} has no `data.test` to be measured on")
        elif trial.experiment.data.test != plan.trials[0].experiment.data.test:
            mistakes.append(
                f"{plan.path}: the trials {plan.trials[0].name} and {trial.name} have different test sets,"
                " so they cannot be compared"
            )
    if mistakes:
        raise ConfigError("\n".join(mistakes))
