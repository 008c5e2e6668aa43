"""Significance of the difference of systems from a first one, on the same sentences.

Over several seeds, trainings with the same seed are compared, pair by pair. The tests resample sentences, and
translations of one sentence by several trainings are not independent samples, so seeds are not pooled into one larger
test set. A system is better (or worse) than the baseline only if it is with every seed: its p-value is the largest of
them. The difference must also exceed the standard deviation over seeds, which the tests do not measure: with one seed
no system is better or worse.
"""

import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from sacrebleu.metrics.base import Signature
from sacrebleu.significance import PairedTest, Result

from seq2attn.metrics.sacrebleu_metrics import MetricName, Metrics
from seq2attn.metrics.translation_metric import References, TranslationMetric

SignificanceTest = Literal["bootstrap", "randomization"]
SAMPLES: dict[SignificanceTest, int] = {"bootstrap": 1000, "randomization": 10_000}
MIN_SIGNIFICANT_BLEU = 1.0
"""BLEU below which no system is better than another: of both, a difference has no p-value."""
TIE = 1e-9
"""Difference, and relative difference, below which scores are equal."""
LEVEL = 0.05

Outcome = Literal["better", "worse", "no difference", "one seed", "below BLEU 1"]


@dataclass(frozen=True)
class PairedScore:
    """Score of a system, and the significance of its difference from the first one."""

    value: float
    signature: str
    interval: float | None  # half the width of the 95 % interval over sentences; None for randomization
    p_value: float | None  # None for the first system, and for BLEU of both below MIN_SIGNIFICANT_BLEU


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


def paired_scores(
    metrics: Metrics,
    systems: Mapping[str, Sequence[str]],
    references: References,
    names: Sequence[MetricName],
    test: SignificanceTest = "bootstrap",
) -> dict[str, dict[str, PairedScore]]:
    """Scores of the translations of each system against the first, by sacreBLEU's name of the metric and system.

    sacreBLEU's paired bootstrap, or approximate randomization. The p-value of equal scores is 1, where the bootstrap
    gives the smallest.
    """
    paired_test = _bootstrap if test == "bootstrap" else _randomization
    scores = dict[str, dict[str, PairedScore]]()
    for key in names:
        name, signature, results = paired_test(metrics.by_name[key], systems, references)
        first = results[0].score
        by_system = dict[str, PairedScore]()
        for system, result in zip(systems, results, strict=True):
            p_value = result.p_value
            if p_value is not None and abs(result.score - first) < TIE:
                p_value = 1.0
            if "bleu" in name.lower() and max(result.score, first) < MIN_SIGNIFICANT_BLEU:
                p_value = None
            interval, p_value = (None if number is None else float(number) for number in (result.ci, p_value))
            by_system[system] = PairedScore(float(result.score), signature, interval, p_value)
        scores[name] = by_system
    return scores


def _bootstrap(
    metric: TranslationMetric, systems: Mapping[str, Sequence[str]], references: References
) -> tuple[str, str, Sequence[Result]]:
    """Name and signature of the metric, and the result of each system, by sacreBLEU's paired bootstrap."""
    test = PairedTest([*systems.items()], {"": metric}, references, test_type="bs", n_samples=SAMPLES["bootstrap"])
    signatures, columns = cast("tuple[Mapping[str, Signature], Mapping[str, list[Result]]]", test())
    ((name, signature),) = signatures.items()
    return name, str(signature), columns[name]


def _randomization(
    metric: TranslationMetric, systems: Mapping[str, Sequence[str]], references: References
) -> tuple[str, str, Sequence[Result]]:
    """As `_bootstrap`, by approximate randomization: the share of exchanges with as large a difference.

    sacreBLEU's own counts larger differences alone, which leaves out many of a metric of few values.
    """
    samples = SAMPLES["randomization"]
    seed = os.environ.get("SACREBLEU_SEED", "12345").lower()
    first, *others = (metric.statistics(lines, references) for lines in systems.values())
    baseline = metric.score(first)
    results = [Result(baseline.score)]
    for other in others:
        generator = np.random.default_rng(None if seed in ("none", "0") else int(seed))  # as sacreBLEU has it
        kept = generator.integers(2, size=(samples, len(first)), dtype=bool)
        exchanged = kept @ first + ~kept @ other, ~kept @ first + kept @ other  # [samples, statistics]
        left, right = (np.array([metric.score(totals[None]).score for totals in side]) for side in exchanged)
        score = metric.score(other).score
        count = int((np.abs(left - right) * (1 + TIE) > abs(score - baseline.score)).sum())
        results.append(Result(score, (count + 1) / (samples + 1)))
    signature = metric.get_signature()
    signature.update("seed", seed)
    signature.update("ar", samples)
    return baseline.name, str(signature), results


def combine_seeds(
    comparisons: Sequence[Comparison], scores: Sequence[float], baselines: Sequence[float]
) -> OverallComparison | None:
    """Overall comparison of several seeds; None without comparisons.

    `scores` and `baselines` are the BLEU of all seeds of system and baseline, also of those that only one of them has.
    """
    if not comparisons:
        return None
    signs = {np.sign(comparison.difference) for comparison in comparisons}
    mean = statistics.fmean(comparison.difference for comparison in comparisons)
    p_values = [comparison.p_value for comparison in comparisons if comparison.p_value is not None]
    if len(p_values) < len(comparisons):
        return OverallComparison(mean, None, "below BLEU 1")
    if len(signs) > 1:
        return OverallComparison(mean, None, "no difference")
    p = max(p_values)
    if len(p_values) == 1:
        return OverallComparison(mean, p, "one seed")
    deviation = max(statistics.stdev(values) if len(values) > 1 else 0.0 for values in (scores, baselines))
    if p >= LEVEL or abs(mean) <= deviation:
        return OverallComparison(mean, p, "no difference")
    return OverallComparison(mean, p, "better" if mean > 0 else "worse")
