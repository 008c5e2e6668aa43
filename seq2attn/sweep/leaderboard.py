"""The leaderboard of a sweep: what came of each cell, over its seeds, and how it compares with the baseline."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seq2attn.data.read import read_pairs
from seq2attn.sweep.cells import Cell, Plan
from seq2attn.sweep.record import Record, read_record
from seq2attn.sweep.significance import Compared, Judgement, compare, judge


@dataclass(frozen=True)
class Spread:
    """One number over several seeds."""

    mean: float
    deviation: float | None  # the sample's (n - 1); nothing can be said of a single one
    lowest: float
    highest: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Spread:
        """Of at least one number."""
        deviation = statistics.stdev(numbers) if len(numbers) > 1 else None
        return cls(statistics.fmean(numbers), deviation, min(numbers), max(numbers))


@dataclass(frozen=True)
class OnSet:
    """A cell on one test set."""

    bleu: Spread
    chrf: Spread
    ter: Spread
    sentences_per_second: Spread
    compared: tuple[Compared, ...]  # with the baseline, a seed each; none for the baseline itself
    judgement: Judgement | None


@dataclass(frozen=True)
class SeedRow:
    """One training of a cell."""

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
class Row:
    """One cell."""

    name: str
    choices: dict[str, str]
    is_baseline: bool
    parameters: int
    seconds: Spread  # of training
    sets: dict[str, OnSet]
    seeds: tuple[SeedRow, ...]


@dataclass(frozen=True)
class Leaderboard:
    """All cells, the best BLEU on the first test set first."""

    name: str
    baseline: str
    axes: dict[str, tuple[str, ...]]
    seeds: tuple[int, ...]
    sets: dict[str, int]  # sentences of each test set
    signatures: dict[str, str]
    rows: tuple[Row, ...]
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


def assemble(plan: Plan) -> Leaderboard:
    """The leaderboard of what is finished."""
    records: dict[str, dict[int, Record]] = {cell.name: {} for cell in plan.cells}
    missing = []
    for training in plan.trainings:
        if record := read_record(training.folder):
            records[training.cell.name][training.seed] = record
        else:
            missing.append(str(training))
    tests = plan.baseline.experiment.data.test
    references = {name: [target for _, target in read_pairs(corpus)] for name, corpus in tests.items()}
    compared = _compared(plan.baseline.name, records, references)
    rows = [
        _row(plan, cell, found, {name: compared[name].get(cell.name, []) for name in tests})
        for cell in plan.cells
        if (found := records[cell.name])
    ]
    first = next(iter(tests))
    rows.sort(key=lambda row: -row.sets[first].bleu.mean)
    return Leaderboard(
        name=plan.path.stem,
        baseline=plan.baseline.name,
        axes={name: tuple(axis.choices) for name, axis in plan.sweep.axes.items()},
        seeds=plan.sweep.seeds,
        sets={name: len(lines) for name, lines in references.items()},
        signatures=_signatures(records, compared),
        rows=tuple(rows),
        missing=tuple(missing),
    )


def _compared(
    baseline: str, records: Mapping[str, Mapping[int, Record]], references: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, list[Compared]]]:
    """By test set and cell, a comparison for each seed that both the cell and the baseline have finished."""
    found: dict[str, dict[str, list[Compared]]] = {name: {} for name in references}
    for seed, base in records[baseline].items():
        others = {name: of[seed] for name, of in records.items() if seed in of and name != baseline}
        for test, lines in references.items():
            systems = {name: record.sets[test].translations for name, record in others.items()}
            for name, one in compare(seed, base.sets[test].translations, systems, lines).items():
                found[test].setdefault(name, []).append(one)
    return found


def _row(plan: Plan, cell: Cell, found: Mapping[int, Record], compared: Mapping[str, list[Compared]]) -> Row:
    records = list(found.values())
    seeds = tuple(
        SeedRow(
            seed=seed,
            folder=str(cell.experiment.run / f"seed-{seed}"),
            bleu={name: measured.score("BLEU").value for name, measured in record.sets.items()},
            **{
                key: getattr(record, key)
                for key in ("seconds", "epochs", "updates", "threads", "jobs", "machine", "torch", "date")
            },
        )
        for seed, record in found.items()
    )
    return Row(
        name=cell.name,
        choices=cell.choices,
        is_baseline=cell is plan.baseline,
        parameters=records[0].parameters,
        seconds=Spread.of([record.seconds for record in records]),
        sets={name: _on_set(name, records, compared[name]) for name in compared},
        seeds=seeds,
    )


def _on_set(name: str, records: Sequence[Record], compared: list[Compared]) -> OnSet:
    measured = [record.sets[name] for record in records]
    bleu, chrf, ter = (
        Spread.of([one.score(score).value for one in measured]) for score in ("BLEU", "chrF2", "TER")
    )
    speed = Spread.of([one.sentences / one.seconds for one in measured])
    return OnSet(bleu, chrf, ter, speed, tuple(compared), judge(compared))


def _signatures(
    records: Mapping[str, Mapping[int, Record]], compared: Mapping[str, Mapping[str, list[Compared]]]
) -> dict[str, str]:
    scores = {
        score.name: score.signature
        for found in records.values()
        for record in found.values()
        for measured in record.sets.values()
        for score in measured.scores
    }
    tests = [one.signature for cells in compared.values() for seeds in cells.values() for one in seeds]
    return {**scores, "paired bootstrap": tests[0]} if tests else scores
