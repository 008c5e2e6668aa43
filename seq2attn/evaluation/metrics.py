"""Scores of detokenized translations by sacreBLEU and metrics in its form, each with its signature."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from seq2attn.errors import DataError, UserError

MetricName = Literal["bleu", "chrf", "chrf++", "ter", "exact", "token-error-rate"]


@dataclass(frozen=True)
class Score:
    """One number of a whole test set, and all that one needs to know to compare it with another's."""

    name: str
    value: float
    signature: str


@dataclass(frozen=True)
class LengthBucket:
    """The sentences whose source has `lowest` to `highest` whitespace words, and their score."""

    lowest: int
    highest: int
    sentences: int
    mean_length: float
    score: Score


@dataclass(frozen=True)
class Metrics:
    """The metrics for one set of references; built by `EvaluationConfig.build`."""

    by_name: Mapping[MetricName, Metric]
    names: tuple[MetricName, ...]  # those reported unless others are asked for
    note: str | None  # the tokenizer that was chosen by the script of the references, where it is not 13a
    cautions: Mapping[MetricName, str]  # metrics that split at spaces, where the references have few

    def warnings(self, names: Sequence[MetricName] | None = None) -> list[str]:
        """The cautions about these metrics."""
        return [self.cautions[name] for name in self.names_or(names) if name in self.cautions]

    def scores(
        self,
        hypotheses: Sequence[str],
        references: Sequence[Sequence[str]],
        names: Sequence[MetricName] | None = None,
    ) -> list[Score]:
        """Scores of detokenized `hypotheses`, in the order of `names`.

        `references` are streams: `references[k][i]` is the k-th reference of sentence i.

        Raises: DataError if a stream has another number of lines than `hypotheses`, or if there are none.
        """
        for stream in references:
            _check_pairs(hypotheses, stream, "references")
        found = []
        for name in self.names_or(names):
            metric = self.by_name[name]
            result = metric.corpus_score(hypotheses, references)
            found.append(Score(result.name, result.score, str(metric.get_signature())))
        return found

    def names_or(self, names: Sequence[MetricName] | None) -> Sequence[MetricName]:
        """`names`, or the default ones."""
        return self.names if names is None else names


def scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[str] = ("bleu", "chrf", "ter"),
) -> list[Score]:
    """Score detokenised `hypotheses` against one reference each. Raises DataError if they do not pair up."""
    _check_pairs(hypotheses, references, "references")
    return [_score(_metric(name), hypotheses, references) for name in metrics]


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """BLEU of detokenised `hypotheses`. Raises DataError if they do not pair up with `references`."""
    return scores(hypotheses, references, ["bleu"])[0]


def bleu_by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    edges: Sequence[int] = (5, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100),
    *,
    fewest: int = 20,
) -> list[LengthBucket]:
    """BLEU of sentences of similar source length, shortest first (Bahdanau et al. 2015, figure 2).

    `edges` are the longest lengths of the buckets, in words, ascending; what is longer than all of them is
    one more. Neighbours are merged until each has `fewest` sentences: BLEU of a handful says nothing.
    Raises DataError if the three do not pair up.
    """
    _check_pairs(hypotheses, references, "references")
    _check_pairs(hypotheses, sources, "sources")
    lengths = [len(source.split()) for source in sources]
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    groups = [list(group) for _, group in groupby(order, key=lambda i: bisect_left(edges, lengths[i]))]
    return [
        LengthBucket(
            lowest=lengths[group[0]],
            highest=lengths[group[-1]],
            sentences=len(group),
            mean_length=sum(lengths[i] for i in group) / len(group),
            score=bleu([hypotheses[i] for i in group], [references[i] for i in group]),
        )
        for group in _merge(groups, fewest)
    ]


def table(systems: Mapping[str, Sequence[Score]], *, markdown: bool = False) -> str:
    """A row a system, a column a metric, and below them the signatures; all systems have the same metrics."""
    columns = list(dict.fromkeys((score.name, score.signature) for row in systems.values() for score in row))
    rows = [
        [system, *(f"{score.value:.2f}" for _, score in zip(columns, row, strict=True))]
        for system, row in systems.items()
    ]
    signatures = [f"{name}: {f'`{signature}`' if markdown else signature}" for name, signature in columns]
    grid = _render([["system", *(name for name, _ in columns)], *rows], markdown)
    return grid + "\n\n" + ("  \n" if markdown else "\n").join(signatures)


def length_table(systems: Mapping[str, Sequence[LengthBucket]], *, markdown: bool = False) -> str:
    """A row a bucket, a column a system; all systems translated the same sources."""
    rows = [
        [f"{row[0].lowest}-{row[0].highest}", str(row[0].sentences), *(f"{b.score.value:.2f}" for b in row)]
        for row in zip(*systems.values(), strict=True)
    ]
    return _render([["words", "sentences", *systems], *rows], markdown)


def _check_pairs(hypotheses: Sequence[str], others: Sequence[str], name: str) -> None:
    if len(hypotheses) != len(others):
        raise DataError(
            f"{len(hypotheses)} hypotheses but {len(others)} {name}; each sentence needs one line of both"
        )
    if not hypotheses:
        raise DataError("there is nothing to score: no hypotheses and no references")


def _metric(name: str) -> BLEU | CHRF | TER:
    match name:
        case "bleu":
            return BLEU()
        case "chrf":
            return CHRF()
        case "ter":
            return TER(case_sensitive=True)  # sacreBLEU's own default lower-cases here, and here only
    raise UserError(f"unknown metric `{name}`; there are bleu, chrf and ter")


def _score(metric: BLEU | CHRF | TER, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    result = metric.corpus_score(hypotheses, [references])
    return Score(result.name, result.score, str(metric.get_signature()))


def _merge(groups: list[list[int]], fewest: int) -> list[list[int]]:
    merged = [groups[0]]
    for group in groups[1:]:
        if len(merged[-1]) < fewest:
            merged[-1] = merged[-1] + group
        else:
            merged.append(group)
    if len(merged) > 1 and len(merged[-1]) < fewest:
        merged[-2:] = [merged[-2] + merged[-1]]
    return merged


def _render(rows: list[list[str]], markdown: bool) -> str:
    """Rows of cells, the first being the heading: words to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = [
        [
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in rows
    ]
    if not markdown:
        return "\n".join("  ".join(row).rstrip() for row in aligned)
    rule = ["-" * width if i == 0 else "-" * (width - 1) + ":" for i, width in enumerate(widths)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [aligned[0], rule, *aligned[1:]])
