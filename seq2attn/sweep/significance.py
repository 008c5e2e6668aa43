"""Whether a system differs from a baseline by more than the choice of test sentences: sacreBLEU's paired bootstrap.

Trainings with the same seed are compared, each pair for itself: sentences are resampled, and translations of one
sentence by several trainings are no independent draws of it, so they must not be pooled into one larger test set.
Over the seeds a trial is called better (or worse) only if it is in each of them: the p-value of that is the largest.
And only if the difference is larger than the spread over seeds, of which the bootstrap knows nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sacrebleu.significance import PairedTest

from seq2attn.evaluation.metrics import Metrics, References

RESAMPLES = 1000
LEVEL = 0.05

Verdict = Literal["better", "worse", "no difference"]


@dataclass(frozen=True)
class Comparison:
    """A system beside the baseline, on one test set and with one seed."""

    seed: int
    score: float  # BLEU
    difference: float  # from the baseline's
    p_value: float
    confidence_interval: float  # half the width of the 95 % interval of the system's own BLEU
    signature: str


@dataclass(frozen=True)
class OverallComparison:
    """A system beside the baseline, over all seeds."""

    difference: float  # of the mean BLEU
    p_value: (
        float | None
    )  # of differing in this direction with every seed; None where the seeds disagree in the direction
    verdict: Verdict


def compare_systems(
    seed: int,
    baseline: Sequence[str],
    systems: Mapping[str, Sequence[str]],
    metrics: Metrics,
    references: References,
) -> dict[str, Comparison]:
    """BLEU of each system's translations against the baseline's of the same sentences."""
    named: list[tuple[str, Sequence[str]]] = [("baseline", baseline), *systems.items()]
    bleu = {"BLEU": metrics.by_name["bleu"]}
    test = PairedTest(named, bleu, references, test_type="bs", n_samples=RESAMPLES)
    signatures, scores = test()
    results: list[Any] = list(scores["BLEU"])
    first, *others = results
    signature = str(signatures["BLEU"])
    return {
        name: Comparison(seed, result.score, result.score - first.score, result.p_value, result.ci, signature)
        for name, result in zip(systems, others, strict=True)
    }


def combine_seeds(compared: Sequence[Comparison]) -> OverallComparison | None:
    """What the seeds say together; None where there is nothing to compare."""
    if not compared:
        return None
    signs = {(one.difference > 0) - (one.difference < 0) for one in compared}
    mean = sum(one.difference for one in compared) / len(compared)
    if len(signs) > 1:
        return OverallComparison(mean, None, "no difference")
    p = max(one.p_value for one in compared)
    if p >= LEVEL or abs(mean) <= seed_deviation(compared):
        return OverallComparison(mean, p, "no difference")
    return OverallComparison(mean, p, "better" if mean > 0 else "worse")


def seed_deviation(compared: Sequence[Comparison]) -> float:
    """Standard deviation (n - 1) of the score over seeds, the baseline's if that is larger; 0 of a single seed."""
    if len(compared) < 2:
        return 0.0
    scores = [one.score for one in compared]
    baselines = [one.score - one.difference for one in compared]
    return max(statistics.stdev(scores), statistics.stdev(baselines))
