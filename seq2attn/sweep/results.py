"""Scores of trainings beside the published ones, and their outcome."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from seq2attn.evaluation.evaluate import EvaluationSet, read_sets
from seq2attn.metrics.significance import paired_scores
from seq2attn.sweep.leaderboard import SeedStatistics
from seq2attn.sweep.recipe import Recipe
from seq2attn.sweep.record import Records, RunRecord

ReproductionOutcome = Literal["reached", "within the interval", "not reached"]
OUTCOME_RULE = (
    "Reached: the mean over the seeds is at least the published score. Within the interval: it is lower by no more than"
    " half of the 95 % interval over sentences (sacreBLEU's bootstrap, mean over the seeds). Not reached: otherwise."
)


@dataclass(frozen=True)
class ReproducedScore:
    """Score of a trial on a test set beside the published one."""

    trial: str
    test_set: str
    published: float
    ours: SeedStatistics
    by_seed: dict[int, float]
    interval: float  # half the width of the 95 % interval over sentences, mean over the seeds
    outcome: ReproductionOutcome
    signature: str
    published_gain: float | None  # from the trial above; None unless the recipe is a ladder
    gain: float | None


def reproduction_outcome(published: float, ours: float, interval: float) -> ReproductionOutcome:
    """The outcome on a mean score with half the width of its interval, by `OUTCOME_RULE`."""
    if ours >= published:
        return "reached"
    return "within the interval" if ours + interval >= published else "not reached"


def reproduced_scores(recipe: Recipe, records: Records) -> list[ReproducedScore]:
    """Scores of all finished trials that have a published one, in the order of the recipe."""
    experiment = recipe.plan.baseline.experiment
    tests = {test.name: test for test in read_sets(experiment.data.test, experiment.evaluation)}
    scores = list[ReproducedScore]()
    above = dict[str, ReproducedScore]()
    for trial, published in recipe.config.published.items():
        for name, number in published.items():
            if finished := records.get(trial):
                score = _score(recipe, trial, number, tests[name], finished, above.get(name))
                scores.append(score)
                above[name] = score
    return scores


def _score(
    recipe: Recipe,
    trial: str,
    published: float,
    test: EvaluationSet,
    records: Mapping[int, RunRecord],
    above: ReproducedScore | None,
) -> ReproducedScore:
    translations = {str(seed): record.sets[test.name].translations for seed, record in records.items()}
    (scores,) = paired_scores(test.metrics, translations, test.references, [recipe.config.metric]).values()
    by_seed = {int(seed): score.value for seed, score in scores.items()}
    ours = SeedStatistics.from_values([*by_seed.values()])
    interval = statistics.fmean(score.interval or 0.0 for score in scores.values())
    above = above if recipe.config.is_ladder else None
    common = by_seed.keys() & above.by_seed.keys() if above else ()
    return ReproducedScore(
        trial=trial,
        test_set=test.name,
        published=published,
        ours=ours,
        by_seed=by_seed,
        interval=interval,
        outcome=reproduction_outcome(published, ours.mean, interval),
        signature=next(iter(scores.values())).signature,
        published_gain=published - above.published if above else None,
        gain=statistics.fmean(by_seed[seed] - above.by_seed[seed] for seed in common) if above and common else None,
    )
