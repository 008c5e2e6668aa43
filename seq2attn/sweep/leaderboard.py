"""The leaderboard of a sweep: what came of each trial, over its seeds, and how it compares with the baseline."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seq2attn.errors import RunError
from seq2attn.evaluation.evaluate import EvaluationSet
from seq2attn.sweep.plan import SweepPlan, Trial, TrialRun
from seq2attn.sweep.record import RunRecord, changed_parts, read_record
from seq2attn.sweep.significance import Comparison, OverallComparison, combine_seeds, compare_systems


@dataclass(frozen=True)
class SeedStatistics:
    """One number over several seeds."""

    mean: float
    std: float | None  # the sample's (n - 1); nothing can be said of a single one
    lowest: float
    highest: float

    @classmethod
    def from_values(cls, numbers: Sequence[float]) -> SeedStatistics:
        """Of at least one number."""
        deviation = statistics.stdev(numbers) if len(numbers) > 1 else None
        return cls(statistics.fmean(numbers), deviation, min(numbers), max(numbers))


@dataclass(frozen=True)
class TestSetScores:
    """A trial on one test set."""

    bleu: SeedStatistics
    others: dict[str, SeedStatistics]  # scores of other metrics, by their names
    sentences_per_second: SeedStatistics
    comparisons: tuple[Comparison, ...]  # with the baseline, a seed each; none for the baseline itself
    verdict: OverallComparison | None


@dataclass(frozen=True)
class SeedRow:
    """One training of a trial."""

    seed: int
    folder: str
    bleu: dict[str, float]
    seconds: float
    epochs: float
    updates: int
    threads: int
    jobs: int
    machine: str
    torch: str
    date: str


@dataclass(frozen=True)
class LeaderboardRow:
    """One trial."""

    name: str
    choices: dict[str, str]
    is_baseline: bool
    parameters: int
    seconds: SeedStatistics  # of training
    sets: dict[str, TestSetScores]
    seeds: tuple[SeedRow, ...]


@dataclass(frozen=True)
class Leaderboard:
    """All trials, the best BLEU on the first test set first."""

    name: str
    baseline: str
    axes: dict[str, tuple[str, ...]]
    seeds: tuple[int, ...]
    sets: dict[str, int]  # sentences of each test set
    signatures: dict[str, str]
    rows: tuple[LeaderboardRow, ...]
    missing: tuple[str, ...]  # trainings that are not finished

    @property
    def conditions(self) -> list[str]:
        """How the numbers were measured, each way once."""
        ways = (
            f"{seed.machine}; torch {seed.torch}; {seed.threads} thread{'s' * (seed.threads > 1)} a training,"
            f" up to {seed.jobs} side by side; {seed.date}"
            for row in self.rows
            for seed in row.seeds
        )
        return sorted(set(ways))


def build_leaderboard(plan: SweepPlan) -> Leaderboard:
    """The leaderboard of what is finished.

    Raises: RunError for results of other test sets, or of other settings of evaluation, than those of the plan.
    """
    base = plan.baseline.experiment
    tests = [EvaluationSet.read(name, one, base.evaluation) for name, one in base.data.test.items()]
    records: dict[str, dict[int, RunRecord]] = {trial.name: {} for trial in plan.trials}
    missing = []
    for training in plan.runs:
        if record := read_record(training.folder):
            _check_measured(plan, training, record, tests)
            records[training.trial.name][training.seed] = record
        else:
            missing.append(str(training))
    compared = _compared(plan.baseline.name, records, tests)
    rows = [
        _row(plan, trial, found, {name: of.get(trial.name, []) for name, of in compared.items()})
        for trial in plan.trials
        if (found := records[trial.name])
    ]
    rows.sort(key=lambda row: -row.sets[tests[0].name].bleu.mean)
    return Leaderboard(
        name=plan.path.stem,
        baseline=plan.baseline.name,
        axes={name: tuple(axis.choices) for name, axis in plan.sweep.axes.items()},
        seeds=plan.sweep.seeds,
        sets={test.name: len(test.pairs) for test in tests},
        signatures=_signatures(records, compared),
        rows=tuple(rows),
        missing=tuple(missing),
    )


def _check_measured(plan: SweepPlan, training: TrialRun, record: RunRecord, tests: Sequence[EvaluationSet]) -> None:
    how = f"put it back, or do it anew: seq2attn sweep {plan.path} --redo"
    for test in tests:
        if test.name not in record.sets or record.sets[test.name].digests != test.digests:
            raise RunError(f"{training.folder}: the text of the test set `{test.name}` has changed since; {how}")
    settings = training.experiment.model_dump(mode="json", include={"search", "evaluation"})
    if parts := changed_parts(training, settings):
        raise RunError(f"{training.folder}: was measured with another {' and '.join(parts)}; {how}")


def _compared(
    baseline: str, records: Mapping[str, Mapping[int, RunRecord]], tests: Sequence[EvaluationSet]
) -> dict[str, dict[str, list[Comparison]]]:
    """By test set and trial, a comparison for each seed that both the trial and the baseline have finished."""
    found: dict[str, dict[str, list[Comparison]]] = {test.name: {} for test in tests}
    for seed, base in records[baseline].items():
        others = {name: of[seed] for name, of in records.items() if seed in of and name != baseline}
        for test in tests:
            systems = {name: record.sets[test.name].translations for name, record in others.items()}
            translations = base.sets[test.name].translations
            for name, one in compare_systems(seed, translations, systems, test.metrics, test.references).items():
                found[test.name].setdefault(name, []).append(one)
    return found


def _row(
    plan: SweepPlan, trial: Trial, found: Mapping[int, RunRecord], compared: Mapping[str, list[Comparison]]
) -> LeaderboardRow:
    records = list(found.values())
    seeds = tuple(
        SeedRow(
            seed=seed,
            folder=str(trial.experiment.run_dir / f"seed-{seed}"),
            bleu={name: measured.score("BLEU").value for name, measured in record.sets.items()},
            **{
                key: getattr(record, key)
                for key in ("seconds", "epochs", "updates", "threads", "jobs", "machine", "torch", "date")
            },
        )
        for seed, record in found.items()
    )
    return LeaderboardRow(
        name=trial.name,
        choices=trial.choices,
        is_baseline=trial is plan.baseline,
        parameters=records[0].parameters,
        seconds=SeedStatistics.from_values([record.seconds for record in records]),
        sets={name: _on_set(name, records, compared[name]) for name in compared},
        seeds=seeds,
    )


def _on_set(name: str, records: Sequence[RunRecord], compared: list[Comparison]) -> TestSetScores:
    measured = [record.sets[name] for record in records]
    spreads = {
        score.name: SeedStatistics.from_values([one.score(score.name).value for one in measured])
        for score in measured[0].scores
    }
    bleu = spreads.pop("BLEU")
    speed = SeedStatistics.from_values([one.sentences / one.seconds for one in measured])
    return TestSetScores(bleu, spreads, speed, tuple(compared), combine_seeds(compared))


def _signatures(
    records: Mapping[str, Mapping[int, RunRecord]], compared: Mapping[str, Mapping[str, list[Comparison]]]
) -> dict[str, str]:
    scores = {
        score.name: score.signature
        for found in records.values()
        for record in found.values()
        for measured in record.sets.values()
        for score in measured.scores
    }
    tests = [one.signature for trials in compared.values() for seeds in trials.values() for one in seeds]
    return {**scores, "paired bootstrap": tests[0]} if tests else scores
