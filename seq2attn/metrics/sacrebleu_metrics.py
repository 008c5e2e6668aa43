"""Scores of detokenized translations, each with its sacreBLEU signature."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from seq2attn.errors import DataError
from seq2attn.io.tables import format_table
from seq2attn.metrics.translation_metric import References, TranslationMetric
from seq2attn.tokenizers.normalize import unspaced_script

MetricName = Literal["bleu", "chrf", "chrf++", "ter", "exact", "token-error-rate", "paper_bleu"]
LENGTHS = (5, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100)
"""Maximum words of the buckets of BLEU by length; for text without spaces twice these numbers of characters."""
MIN_SENTENCES = 20
"""Minimum of such a bucket, below which it is merged with its neighbor."""


@dataclass(frozen=True)
class Score:
    """A metric of a whole test set, with the settings that make it comparable."""

    name: str
    value: float
    signature: str


@dataclass(frozen=True)
class LengthBucket:
    """BLEU of the sentences whose source has `lowest` to `highest` words or characters."""

    lowest: int
    highest: int
    sentences: int
    mean_length: float
    score: Score
    unit: str = "words"  # separated by white space; or characters


@dataclass(frozen=True)
class Metrics:
    """The metrics for one set of references; built by `EvaluationConfig.build`."""

    by_name: Mapping[MetricName, TranslationMetric]
    names: tuple[MetricName, ...]  # default metrics
    note: str | None  # on an automatic choice of a tokenizer other than 13a
    cautions: Mapping[MetricName, str]  # on metrics that split at spaces, for references with few

    def warnings(self, names: Sequence[MetricName] | None = None) -> list[str]:
        """The cautions about `names`, by default about the default metrics."""
        return [self.cautions[name] for name in (self.names if names is None else names) if name in self.cautions]

    def scores(
        self, hypotheses: Sequence[str], references: References, names: Sequence[MetricName] | None = None
    ) -> list[Score]:
        """Scores of detokenized `hypotheses`, in the order of `names`, by default those of the default metrics.

        Raises DataError if a stream has another number of lines than `hypotheses`, or if there are none.
        """
        for stream in references:
            _check_pairs(hypotheses, stream, "references")
        metrics = [self.by_name[name] for name in (self.names if names is None else names)]
        results = [(metric, metric.corpus_score(hypotheses, references)) for metric in metrics]
        return [Score(result.name, result.score, str(metric.get_signature())) for metric, result in results]


def bleu_by_length(
    metrics: Metrics, sources: Sequence[str], hypotheses: Sequence[str], references: References
) -> list[LengthBucket]:
    """BLEU of sentences of similar source length, shortest first (Bahdanau et al. 2015, figure 2).

    Raises DataError if sources, hypotheses and references differ in number.
    """
    _check_pairs(hypotheses, sources, "sources")
    has_words = not unspaced_script(sources)
    lengths = [len(source.split() if has_words else "".join(source.split())) for source in sources]
    edges = [edge if has_words else 2 * edge for edge in LENGTHS]
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    groups = [list(group) for _, group in groupby(order, key=lambda i: bisect_left(edges, lengths[i]))]

    def bleu(group: list[int]) -> Score:
        streams = [[stream[i] for i in group] for stream in references]
        return metrics.scores([hypotheses[i] for i in group], streams, ["bleu"])[0]

    return [
        LengthBucket(
            lowest=lengths[group[0]],
            highest=lengths[group[-1]],
            sentences=len(group),
            mean_length=sum(lengths[i] for i in group) / len(group),
            score=bleu(group),
            unit="words" if has_words else "characters",
        )
        for group in _merge(groups)
    ]


def score_table(systems: Mapping[str, Sequence[Score]]) -> str:
    """A table with a row per system and a column per metric and signature; the signatures below."""
    columns = list(dict.fromkeys((score.name, score.signature) for row in systems.values() for score in row))
    rows = []
    for system, scores in systems.items():
        values = {(score.name, score.signature): f"{score.value:.2f}" for score in scores}
        rows.append([system, *(values.get(column, "") for column in columns)])
    signatures = [f"{name}: {signature}" for name, signature in columns]
    return "\n".join([format_table([["system", *(name for name, _ in columns)], *rows]), "", *signatures])


def length_table(systems: Mapping[str, Sequence[LengthBucket]], *, markdown: bool = False) -> str:
    """A table with a row per bucket and a column per system, all of the same sources."""
    unit = next((bucket.unit for buckets in systems.values() for bucket in buckets), "words")
    return format_table([[unit, "sentences", *systems], *length_rows(systems)], markdown=markdown)


def length_rows(systems: Mapping[str, Sequence[LengthBucket]]) -> list[list[str]]:
    """The rows of `length_table`."""
    rows = []
    for first, *others in zip(*systems.values(), strict=True):
        scores = (f"{bucket.score.value:.2f}" for bucket in (first, *others))
        rows.append([f"{first.lowest}-{first.highest}", str(first.sentences), *scores])
    return rows


def _check_pairs(hypotheses: Sequence[str], others: Sequence[str], name: str) -> None:
    if len(hypotheses) != len(others):
        raise DataError(f"{len(hypotheses)} hypotheses but {len(others)} {name}; each sentence needs one line of both")
    if not hypotheses:
        raise DataError("there are no hypotheses and no references to score")


def _merge(groups: list[list[int]]) -> list[list[int]]:
    merged = list[list[int]]()
    for group in groups:
        if merged and len(merged[-1]) < MIN_SENTENCES:
            merged[-1] += group
        else:
            merged.append(group)
    if len(merged) > 1 and len(merged[-1]) < MIN_SENTENCES:
        merged[-2:] = [merged[-2] + merged[-1]]
    return merged
