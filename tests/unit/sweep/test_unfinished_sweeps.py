"""The report of a reproduction whose trials have finished different seeds."""

from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev

import pytest

from seq2attn.errors import RunError
from seq2attn.evaluation.evaluate import EvaluationSet, SetResult, read_sets
from seq2attn.metrics.significance import paired_scores
from seq2attn.sweep.leaderboard import build_leaderboard
from seq2attn.sweep.recipe import Recipe, load_recipe
from seq2attn.sweep.record import RunRecord, TrainingSummary, read_records, write_record
from seq2attn.sweep.report import draw_figures, reproduced_scores, write_report
from tests.support.recipes import home

WRONG = {("fixed", 1): 2, ("fixed", 2): 10, ("luong", 2): 4}
"""For each finished training, the number of sentences with a wrong translation."""
SUMMARY = TrainingSummary(9, 5400.0, 9, 1.0, 1, 1, "a machine", "2.13", "2026-11-25")


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recipe:
    monkeypatch.chdir(home(tmp_path / "home"))
    return load_recipe("configs/reproduce/toy.yaml")


@pytest.fixture
def tests(recipe: Recipe) -> list[EvaluationSet]:
    experiment = recipe.plan.baseline.experiment
    return read_sets(experiment.data.test, experiment.evaluation)


def result_of(test: EvaluationSet, wrong: int) -> SetResult:
    lines = tuple("x" * (number < wrong) or line for number, line in enumerate(test.references[0]))
    scores = tuple(test.metrics.scores(lines, test.references))
    return SetResult(test.name, test.digests, len(lines), scores, (), 1.0, 9, lines, None, ())


@pytest.mark.parametrize("finished", [[*WRONG], [("fixed", 2), ("luong", 2)]], ids=["two and one", "one each"])
def test_gains_are_over_the_seeds_of_both(
    recipe: Recipe, tests: list[EvaluationSet], finished: list[tuple[str, int]]
) -> None:
    recipe = load_recipe("configs/reproduce/toy.yaml", ["figures=[]"])
    for run in recipe.plan.runs:
        if (key := (run.trial.name, run.seed)) in finished:
            run.folder.mkdir(parents=True)
            write_record(run.folder, RunRecord(SUMMARY, {one.name: result_of(one, WRONG[key]) for one in tests}))
    scores = {(one.trial, one.test_set): one for one in reproduced_scores(recipe, read_records(recipe.plan))}
    fixed, luong = scores["fixed", "mixed"], scores["luong", "mixed"]
    assert luong.published_gain == pytest.approx(0.5)
    assert luong.gain == pytest.approx(luong.by_seed[2] - fixed.by_seed[2]) and luong.gain > 0
    assert fixed.gain is None and [*fixed.by_seed] == [seed for trial, seed in finished if trial == "fixed"]
    ours = "mean ± standard deviation (n - 1) over the finished seeds" if len(finished) == 3 else "one seed"
    missing = ", ".join(str(run) for run in recipe.plan.runs if (run.trial.name, run.seed) not in finished)
    hours, report = f"{1.5 * len(finished):.1f} hours of training", write_report(recipe)
    for note in (f"Ours: {ours}.", hours, f"Not finished: {missing}.", "Set on the command line: `figures=[]`."):
        assert note in report


def test_statistics_and_outcomes_are_over_all_seeds(recipe: Recipe, tests: list[EvaluationSet]) -> None:
    """Seeds that differ: neither the best nor the widest counts alone, and each row has its own outcome."""
    wrong = {("fixed", 1): 1, ("fixed", 2): 14, ("luong", 1): 3, ("luong", 2): 18}
    for run in recipe.plan.runs:
        run.folder.mkdir(parents=True)
        results = {one.name: result_of(one, wrong[run.trial.name, run.seed]) for one in tests}
        write_record(run.folder, RunRecord(SUMMARY, results))
    (test,) = (one for one in tests if one.name == "mixed")
    values, intervals = dict[str, list[float]](), dict[str, list[float]]()
    for (trial, _), number in wrong.items():
        system = {"": result_of(test, number).translations}
        one = paired_scores(test.metrics, system, test.references, ["paper_bleu"])["paper_bleu"][""]
        values.setdefault(trial, []).append(one.value)
        intervals.setdefault(trial, []).append(one.interval or 0.0)
        assert one.value > 0 and one.interval
    # By the best seed the first would be reached, and by the widest interval the second within it.
    half = fmean(intervals["luong"])
    published = {
        "fixed": {"mixed": fmean(values["fixed"]) + 0.9 * min(max(values["fixed"]) - fmean(values["fixed"]),
                                                              fmean(intervals["fixed"]))},
        "luong": {"mixed": fmean(values["luong"]) + (half + max(intervals["luong"])) / 2},
    }  # fmt: skip
    config = recipe.config.model_copy(update={"published": published})
    scores = reproduced_scores(replace(recipe, config=config), read_records(recipe.plan))
    assert [one.outcome for one in scores] == ["within the interval", "not reached"]
    for one in scores:
        found, seeds = one.ours, values[one.trial]
        assert [*one.by_seed.values()] == pytest.approx(seeds)
        assert one.interval == pytest.approx(fmean(intervals[one.trial])) != pytest.approx(max(intervals[one.trial]))
        assert (found.mean, found.std) == pytest.approx((fmean(seeds), stdev(seeds)))
        assert (found.lowest, found.highest) == pytest.approx((min(seeds), max(seeds)))
    assert scores[1].gain == pytest.approx(fmean(values["luong"]) - fmean(values["fixed"]))


def test_each_step_of_a_ladder_is_compared_with_the_one_above(recipe: Recipe, tests: list[EvaluationSet]) -> None:
    records = {
        trial: {1: RunRecord(SUMMARY, {one.name: result_of(one, wrong) for one in tests})}
        for trial, wrong in (("first", 18), ("second", 10), ("third", 3))
    }
    published = {trial: {"mixed": score} for trial, score in zip(records, (50.0, 51.0, 53.0), strict=True)}
    config = recipe.config.model_copy(update={"published": published})
    scores = reproduced_scores(replace(recipe, config=config), records)
    assert [one.published_gain for one in scores] == [None, 1.0, 2.0]
    above, means = [None, *scores], [one.ours.mean for one in scores]
    gains = [one.ours.mean - before.ours.mean if before else None for one, before in zip(scores, above, strict=False)]
    assert [one.gain for one in scores] == gains and len({*means}) == len(means)


def test_figures_are_of_finished_trainings(recipe: Recipe, tests: list[EvaluationSet], tmp_path: Path) -> None:
    """Alignments are those of the baseline, here the second trial; without one of its trainings there are none."""
    first, baseline = recipe.plan.trials[0].name, recipe.plan.baseline.name
    assert first != baseline
    record = RunRecord(SUMMARY, {one.name: result_of(one, 1) for one in tests})
    figures = draw_figures(recipe, {first: {1: record}, baseline: {}}, tmp_path)
    assert [*figures] == [f"BLEU by source length, {name}" for name in recipe.plan.baseline.experiment.data.test]


def test_a_result_that_is_refused_is_repeated_by_the_command_of_its_file(recipe: Recipe) -> None:
    (run, *_) = recipe.plan.runs
    run.folder.mkdir(parents=True)
    write_record(run.folder, RunRecord(SUMMARY, {}))
    with pytest.raises(RunError, match=r"repeat the run: seq2attn reproduce configs/reproduce/toy\.yaml --redo$"):
        build_leaderboard(recipe.plan)


def test_without_a_finished_training_there_is_no_score(recipe: Recipe) -> None:
    assert "Published: table 1. Ours: none yet." in write_report(recipe)
