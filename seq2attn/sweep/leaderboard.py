"""The leaderboard of a sweep: statistics of each trial over its seeds, and its comparison with the baseline.

It is written as Markdown, and as an HTML page that needs no network.
"""

from __future__ import annotations

import shlex
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product

from seq2attn.errors import RunError
from seq2attn.evaluation.evaluate import EvaluationSet, read_sets
from seq2attn.io.tables import format_table
from seq2attn.io.terminal import plural
from seq2attn.metrics.significance import LEVEL, SAMPLES, Comparison, OverallComparison, combine_seeds, paired_scores
from seq2attn.sweep.plan import SweepPlan, Trial, TrialRun
from seq2attn.sweep.record import (
    Records,
    RunRecord,
    TrainingSummary,
    changed_options,
    conditions,
    read_records,
    unfinished,
)
from seq2attn.visualization.page import render_page

Comparisons = Mapping[str, Sequence[Comparison]]
"""One comparison per seed, by test set."""


@dataclass(frozen=True)
class SeedStatistics:
    """Statistics of one figure over seeds."""

    mean: float
    std: float | None  # of the sample (n - 1); None of a single seed
    lowest: float
    highest: float

    @classmethod
    def from_values(cls, values: Sequence[float]) -> SeedStatistics:
        """Statistics of at least one value."""
        deviation = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), deviation, min(values), max(values))

    def __str__(self) -> str:
        return f"{self.mean:.2f}" + ("" if self.std is None else f" ± {self.std:.2f}")


@dataclass(frozen=True)
class SetScores:
    """Scores of a trial on one test set."""

    bleu: SeedStatistics
    others: dict[str, SeedStatistics]  # other metrics, by name
    sentences_per_second: SeedStatistics
    comparisons: tuple[Comparison, ...]  # with the baseline, one per seed; none for the baseline
    overall: OverallComparison | None


@dataclass(frozen=True)
class SeedRow:
    """One training of a trial."""

    seed: int
    folder: str
    bleu: dict[str, float]
    training: TrainingSummary


@dataclass(frozen=True)
class LeaderboardRow:
    """One trial."""

    name: str
    choices: dict[str, str]
    is_baseline: bool
    parameters: int
    seconds: SeedStatistics  # of training
    sets: dict[str, SetScores]
    seeds: tuple[SeedRow, ...]


@dataclass(frozen=True)
class Leaderboard:
    """All trials, the highest BLEU on the first test set first."""

    name: str
    baseline: str
    axes: dict[str, tuple[str, ...]]
    seeds: tuple[int, ...]
    sets: dict[str, int]  # number of sentences of each test set
    set_notes: tuple[str, ...]  # on tokenizers of BLEU and on references
    signatures: dict[str, str]
    rows: tuple[LeaderboardRow, ...]
    missing: tuple[str, ...]  # trainings that are not finished
    conditions: tuple[str, ...]  # machines, versions and dates of the measurements, each combination once


def build_leaderboard(plan: SweepPlan) -> Leaderboard:
    """The leaderboard of all finished trainings.

    Raises RunError for results of other test sets or evaluation settings than those of the plan.
    """
    base = plan.baseline.experiment
    tests = read_sets(base.data.test, base.evaluation)
    records = read_records(plan)
    for run in plan.runs:
        if record := records[run.trial.name].get(run.seed):
            _check_record(plan, run, record, tests)
    comparisons = _compare_with_baseline(plan.baseline.name, records, tests)
    rows = [_row(plan, trial, records, comparisons[trial.name]) for trial in plan.trials if records[trial.name]]
    rows.sort(key=lambda row: -row.sets[tests[0].name].bleu.mean)
    return Leaderboard(
        name=plan.path.stem,
        baseline=plan.baseline.name,
        axes={name: tuple(axis.choices) for name, axis in plan.sweep.axes.items()},
        seeds=plan.sweep.seeds,
        sets={test.name: len(test.pairs) for test in tests},
        set_notes=tuple(f"{test.name}: {test.metrics.note}." for test in tests if test.metrics.note),
        signatures=_signatures(records, rows, [test.name for test in tests]),
        rows=tuple(rows),
        missing=tuple(unfinished(plan, records)),
        conditions=tuple(conditions(records)),
    )


def _check_record(plan: SweepPlan, run: TrialRun, record: RunRecord, tests: Sequence[EvaluationSet]) -> None:
    fix = f"restore it, or repeat the run: seq2attn {plan.sweep.command} {shlex.quote(str(plan.path))} --redo"
    for test in tests:
        if test.name not in record.sets or record.sets[test.name].digests != test.digests:
            raise RunError(f"{run.folder}: the text of the test set `{test.name}` has changed; {fix}")
    if parts := changed_options(run):
        raise RunError(f"{run.folder}: was made with another {' and '.join(parts)}; {fix}")


def _compare_with_baseline(
    baseline: str, records: Records, tests: Sequence[EvaluationSet]
) -> dict[str, dict[str, list[Comparison]]]:
    """By trial and test set, a comparison for each seed that both the trial and the baseline have finished."""
    comparisons = {trial: {test.name: list[Comparison]() for test in tests} for trial in records}
    for seed, test in product(records[baseline], tests):
        finished = {trial: by_seed[seed].sets[test.name] for trial, by_seed in records.items() if seed in by_seed}
        systems = {trial: finished[trial].translations for trial in (baseline, *finished)}
        (scores,) = paired_scores(test.metrics, systems, test.references, ["bleu"]).values()
        first = scores.pop(baseline).value
        for trial, score in scores.items():
            assert score.interval is not None, "of the bootstrap"
            comparisons[trial][test.name].append(
                Comparison(seed, score.value, score.value - first, score.p_value, score.interval, score.signature)
            )
    return comparisons


def _row(plan: SweepPlan, trial: Trial, records: Records, comparisons: Comparisons) -> LeaderboardRow:
    finished = records[trial.name]
    baseline = [*records[plan.baseline.name].values()]
    seeds = tuple(
        SeedRow(
            seed=seed,
            folder=str(TrialRun(trial, seed).folder),
            bleu={name: result.score("BLEU").value for name, result in record.sets.items()},
            training=record.training,
        )
        for seed, record in finished.items()
    )
    return LeaderboardRow(
        name=trial.name,
        choices=trial.choices,
        is_baseline=trial is plan.baseline,
        parameters=seeds[0].training.parameters,
        seconds=SeedStatistics.from_values([seed.training.seconds for seed in seeds]),
        sets={name: _scores(name, [*finished.values()], baseline, compared) for name, compared in comparisons.items()},
        seeds=seeds,
    )


def _scores(
    name: str, records: Sequence[RunRecord], baseline: Sequence[RunRecord], comparisons: Sequence[Comparison]
) -> SetScores:
    results = [record.sets[name] for record in records]
    values = {score.name: [result.score(score.name).value for result in results] for score in results[0].scores}
    others = {metric: SeedStatistics.from_values(scores) for metric, scores in values.items()}
    bleu = others.pop("BLEU")
    speed = SeedStatistics.from_values([result.sentences_per_second for result in results])
    baseline_scores = [record.sets[name].score("BLEU").value for record in baseline]
    return SetScores(
        bleu, others, speed, tuple(comparisons), combine_seeds(comparisons, values["BLEU"], baseline_scores)
    )


def _signatures(records: Records, rows: Sequence[LeaderboardRow], names: Sequence[str]) -> dict[str, str]:
    """By metric, and by test set where these differ, as in their languages or numbers of references."""
    by_metric = defaultdict[str, defaultdict[str, dict[str, None]]](lambda: defaultdict(dict))
    finished = [record for by_seed in records.values() for record in by_seed.values()]
    for record, name in product(finished, names):
        for score in record.sets[name].scores:
            by_metric[score.name][name][score.signature] = None
    for row, name in product(rows, names):
        for comparison in row.sets[name].comparisons:
            by_metric["paired bootstrap"][name][comparison.signature] = None
    signatures = dict[str, str]()
    for metric, by_set in by_metric.items():
        texts = {name: "`, `".join(unique) for name, unique in by_set.items()}
        has_one = len({*texts.values()}) == 1
        signatures |= {metric if has_one else f"{metric} {name}": text for name, text in texts.items()}
    return signatures


MARKS = {"better": "▲", "worse": "▼", "no difference": "=", "one seed": "(one seed)", "below BLEU 1": "(below BLEU 1)"}


def leaderboard_html(board: Leaderboard) -> str:
    """The page: a table that can be sorted by any column."""
    names = {"axes": [*board.axes], "sets": [*board.sets]}  # JavaScript has keys such as `2016` before others
    content = {**asdict(board), **names, "title": f"Leaderboard: {board.name}", "notes": _notes(board), "marks": MARKS}
    return render_page("seq2attn.sweep", "leaderboard.html", content)


def leaderboard_markdown(board: Leaderboard) -> str:
    """A table with a row per trial, the best first, and notes on it."""
    heads = ["trial", *(f"BLEU {name}" for name in board.sets)]
    if board.rows:
        heads += [f"{name}: difference, p" for name in board.sets]
    heads += ["parameters", "training, min", "sentences/s"]
    table = format_table([heads, *map(_table_row, board.rows)], markdown=True)
    return "\n\n".join([f"# {board.name}", table, *_notes(board)]) + "\n"


def _notes(board: Leaderboard) -> list[str]:
    """Explanations of the figures, one paragraph each."""
    sets = " and ".join(f"{name} ({plural(size, 'sentence')})" for name, size in board.sets.items())
    seeds = len(board.seeds)
    trained = f"each trained with {plural(seeds, 'seed')}"
    if board.missing:
        trained = f"of whose trainings with {plural(seeds, 'seed')} some are not finished"
    paragraphs = [
        f"{len(board.rows)} trials, {trained}; test sets: {sets}."
        " Sorted by the mean BLEU on the first."
        + (" ± is the standard deviation over the seeds (n - 1)." if seeds > 1 else ""),
        f"The difference is the mean BLEU minus that of the baseline, {board.baseline}, over the seeds that both have"
        " finished. p is the p-value of sacreBLEU's"
        f" paired bootstrap ({SAMPLES['bootstrap']:,} resamples of the test sentences) between trainings with the"
        f" same seed, the largest over the seeds; ▲ better and ▼ worse than the baseline with every seed at p < {LEVEL}"
        " and by more than ± of either, = neither; no mark with one seed, or where both are below BLEU 1."
        " p is not corrected for the number of trials; it measures the choice of sentences, not of seeds.",
        "Times are measured in the process of each training and include validation; speed is that of the"
        " config's search on all test sets, in batches of sentences of similar length.",
        *board.set_notes,
        *(f"Measured on: {condition}." for condition in board.conditions),
        *(f"{name}: `{signature}`" for name, signature in board.signatures.items()),
    ]
    if board.missing:
        paragraphs.append(f"Not finished: {', '.join(board.missing)}.")
    return paragraphs


def _table_row(row: LeaderboardRow) -> list[str]:
    name = f"**{row.name}** (baseline)" if row.is_baseline else row.name
    scores = row.sets.values()
    speeds = " / ".join(f"{one.sentences_per_second.mean:,.0f}" for one in scores)
    numbers = f"{row.parameters:,}", f"{row.seconds.mean / 60:.1f}", speeds
    return [name, *(str(one.bleu) for one in scores), *map(_difference, scores), *numbers]


def _difference(scores: SetScores) -> str:
    """The mean difference from the baseline, with its p-value and mark; empty for the baseline."""
    if (overall := scores.overall) is None:
        return ""
    p = overall.p_value
    confidence = ", seeds disagree" if p is None else ", < 0.001" if p < 0.001 else f", {p:.3f}"
    if overall.outcome == "below BLEU 1":
        confidence = ""
    return f"{overall.difference:+.2f}{confidence} {MARKS[overall.outcome]}"
