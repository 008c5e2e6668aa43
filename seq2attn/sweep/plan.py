"""The trials of a sweep's file, each a complete experiment; all mistakes in them at once, each with its place."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from pathlib import Path

from seq2attn.config.explain import validate
from seq2attn.config.load import load_with_locations, read_merged
from seq2attn.config.merge import merge
from seq2attn.config.yaml_tree import Diagnostic, YAMLValue, format_diagnostics
from seq2attn.errors import ConfigError, UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.models.build import assumed_vocab_sizes, build_for_inspection
from seq2attn.sweep.sweep_config import Choices, SweepConfig, expand, is_config, trial_name
from seq2attn.training.initial_weights import check_parts

_merge = partial(merge, model=ExperimentConfig)


@dataclass(frozen=True)
class TrialRun:
    """One trial with one seed: a run directory."""

    trial: Trial
    seed: int

    @cached_property
    def experiment(self) -> ExperimentConfig:
        """The experiment of the trial with this seed and run directory."""
        base = self.trial.experiment
        return base.with_value("training.seed", self.seed).with_value("run_dir", base.run_dir / f"seed-{self.seed}")

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
    experiment: ExperimentConfig  # its `run_dir` is the parent folder of the runs of all seeds

    @property
    def name(self) -> str:
        """The labels of the trial."""
        return trial_name(self.choices)


@dataclass(frozen=True)
class SweepPlan:
    """A valid sweep and its trials."""

    path: Path
    sweep: SweepConfig
    trials: tuple[Trial, ...]

    @property
    def baseline(self) -> Trial:
        """The trial that all others are compared with."""
        return next(trial for trial in self.trials if trial.choices == self.sweep.baseline)

    @property
    def runs(self) -> list[TrialRun]:
        """All runs; the first seed of all trials comes first."""
        return [TrialRun(trial, seed) for seed in self.sweep.seeds for trial in self.trials]


def load_plan(path: Path, overrides: Sequence[str] = (), model: type[SweepConfig] = SweepConfig) -> SweepPlan:
    """The sweep in a file, with the experiment of each trial; `model` is the class of its config.

    Raises ConfigError with all mistakes at once, each with its place and its trials.
    """
    sweep, tree = load_with_locations(path, model, overrides)
    base = _read(sweep.base)
    messages = list[str]()
    diagnostics: dict[str, tuple[Diagnostic, list[str]]] = {}
    trials: list[Trial] = []
    for choices in expand(sweep.axes, sweep.trials):
        merged = reduce(_merge, map(_read, sweep.configs(choices)), base)
        if sweep.changes:
            merged = merge(merged, tree.content["changes"], ExperimentConfig, messages)
        experiment, mistakes, _ = validate(ExperimentConfig, _merge_choices(merged, tree, choices))
        for diagnostic in mistakes:
            diagnostics.setdefault(str(diagnostic), (diagnostic, []))[1].append(trial_name(choices))
        if experiment is not None:
            run_dir = sweep.folder / "trials" / trial_name(choices)
            trials.append(Trial(choices, experiment.model_copy(update={"run_dir": run_dir})))
    for message in dict.fromkeys(messages):
        print(message, file=sys.stderr)
    if diagnostics:
        raise format_diagnostics(
            path,
            [replace(one, message=f"{one.message} (in {_name_trials(names)})") for one, names in diagnostics.values()],
        )
    plan = SweepPlan(path, sweep, tuple(trials))
    _check(plan)
    return plan


def _read(path: Path) -> YAMLValue:
    tree, mistakes, _ = read_merged(path, ExperimentConfig)
    if mistakes:
        raise format_diagnostics(path, mistakes)
    return tree


def _merge_choices(base: YAMLValue, sweep: YAMLValue, choices: Choices) -> YAMLValue:
    """The YAML of a trial whose configs are merged already; each value keeps its place in its file."""
    for name, label in choices.items():
        axis = sweep.find(("axes", name))[1]
        choice = axis.find(("choices", label))[1]
        at = axis.child("at") or axis
        names = at.data.split(".") if isinstance(at.data, str) else []
        if choice.data == {} or (not names and is_config(choice.data)):
            continue  # an empty choice changes nothing, even where the base has no such key
        for key in reversed(names):
            choice = YAMLValue({key: choice}, at.node)
        base = _merge(base, choice)
    return base


def _name_trials(names: list[str]) -> str:
    return f"the trial {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _check(plan: SweepPlan) -> None:
    """Raises ConfigError for sizes that do not fit, equal trials, or different test sets."""
    mistakes: list[str] = []
    first, *_ = plan.trials
    if "bleu" not in (first.experiment.evaluation.metrics or ["bleu"]):
        mistakes.append("`evaluation.metrics` needs `bleu`, by which the trials are compared")
    if not first.experiment.data.test:
        mistakes.append(f"the trial {first.name} has no test sets (`data.test`)")
    trials = dict[str, Trial]()
    unfit = dict[str, list[str]]()
    for trial in plan.trials:
        device = trial.experiment.training.device
        if device.startswith("cuda:") and device != "cuda:0":
            choice = "set `cuda`, and choose GPUs by CUDA_VISIBLE_DEVICES"
            mistakes.append(f"{trial.name}: `training.device: {device}`, but each training sees one GPU; {choice}")
        try:
            build_for_inspection(trial.experiment.model, *assumed_vocab_sizes(trial.experiment.tokenizer))
            check_parts(trial.experiment, needs_initial_run=False)  # it may be one of the trials
        except UserError as error:
            unfit.setdefault(str(error), []).append(trial.name)
        equal = trials.setdefault(trial.experiment.model_dump_json(exclude={"run_dir"}), trial)
        if equal is not trial:
            mistakes.append(f"the trials {equal.name} and {trial.name} are the same experiment; leave one out")
        for part, value, expected in (
            ("`evaluation` settings", trial.experiment.evaluation, first.experiment.evaluation),
            ("test sets", trial.experiment.data.test, first.experiment.data.test),
        ):
            if value != expected:
                mistakes.append(f"the trials {first.name} and {trial.name} have different {part}: no comparison")
    mistakes += [f"{_name_trials(names)}: {message}" for message, names in unfit.items()]
    if mistakes:
        raise ConfigError("\n".join(f"{plan.path}: {mistake}" for mistake in mistakes))
