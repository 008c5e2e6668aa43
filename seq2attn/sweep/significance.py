"""Significance of a difference from the baseline, by sacreBLEU's paired bootstrap.

Trainings with the same seed are compared, pair by pair. The bootstrap resamples sentences, and translations of one
sentence by several trainings are not independent samples, so seeds are not pooled into one larger test set.
A trial is better (or worse) than the baseline only if it is with every seed: its p-value is the largest of them.
The difference must also exceed the standard deviation over seeds, which the bootstrap does not measure: with one seed
no trial is better or worse.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from seq2attn.evaluation.evaluate_runs import RunResults
from seq2attn.metrics.sacrebleu_metrics import Metrics, paired_scores
from seq2attn.metrics.translation_metric import References

LEVEL = 0.05

Outcome = Literal["better", "worse", "no difference", "one seed", "below BLEU 1"]


@dataclass(frozen=True)
class Comparison:
    """Comparison of a system with the baseline, on one test set and with one seed."""

    seed: int
    score: float  # BLEU
    difference: float  # from the baseline's
    p_value: float | None  # None if both are below BLEU 1
    confidence_interval: float  # half the width of the 95 % interval of the system's BLEU
    signature: str


@dataclass(frozen=True)
class OverallComparison:
    """Comparison of a system with the baseline, over all seeds."""

    difference: float  # of the mean BLEU
    p_value: float | None  # the largest of the seeds; None if they disagree in the direction, or are below BLEU 1
    outcome: Outcome


def compare_systems(
    seed: int, baseline: Sequence[str], systems: Mapping[str, Sequence[str]], metrics: Metrics, references: References
) -> dict[str, Comparison]:
    """BLEU of each system's translations against the baseline's of the same sentences."""
    (scores,) = paired_scores(metrics, {"": baseline, **systems}, references, ["bleu"]).values()
    first = scores.pop("")
    compared = dict[str, Comparison]()
    for name, one in scores.items():
        assert one.interval is not None, "of the bootstrap"
        difference = one.value - first.value
        compared[name] = Comparison(seed, one.value, difference, one.p_value, one.interval, one.signature)
    return compared


def format_differences(evaluated: RunResults) -> str:
    """The difference in BLEU of each run from the first on each test set, with its p-value; a line each."""
    lines = list[str]()
    for index, test in enumerate(evaluated.sets):
        (first, baseline), *others = ((run, sets[index].translations) for run, sets in evaluated.results.items())
        if others and "bleu" in test.metrics.names:
            compared = compare_systems(0, baseline, dict(others), test.metrics, test.references)
            lines += [
                f"{test.name}: {run} {one.difference:+.2f} BLEU against {first}, "
                + ("below BLEU 1" if one.p_value is None else f"p = {one.p_value:.3f} (paired bootstrap; one seed)")
                for run, one in compared.items()
            ]
    return "".join(["\n", *(f"\n{line}" for line in lines)]) if lines else ""


def combine_seeds(
    comparisons: Sequence[Comparison], scores: Sequence[float], baselines: Sequence[float]
) -> OverallComparison | None:
    """Overall comparison of several seeds; None without comparisons.

    `scores` and `baselines` are the BLEU of all seeds of system and baseline, also of those that only one of them has.
    """
    if not comparisons:
        return None
    signs = {(one.difference > 0) - (one.difference < 0) for one in comparisons}
    mean = statistics.fmean(one.difference for one in comparisons)
    p_values = [one.p_value for one in comparisons if one.p_value is not None]
    if len(p_values) < len(comparisons):
        return OverallComparison(mean, None, "below BLEU 1")
    if len(signs) > 1:
        return OverallComparison(mean, None, "no difference")
    p = max(p_values)
    if len(p_values) == 1:
        return OverallComparison(mean, p, "one seed")
    if p >= LEVEL or abs(mean) <= max(map(_deviation, (scores, baselines))):
        return OverallComparison(mean, p, "no difference")
    return OverallComparison(mean, p, "better" if mean > 0 else "worse")


def _deviation(scores: Sequence[float]) -> float:
    """Standard deviation (n - 1) over seeds; 0 of a single seed."""
    return statistics.stdev(scores) if len(scores) > 1 else 0.0
