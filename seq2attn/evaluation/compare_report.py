"""A comparison of runs, as tables in plain text or Markdown, and as an HTML page that needs no network."""

import json
import re
import statistics
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from seq2attn.io.tables import format_table
from seq2attn.metrics.sacrebleu_metrics import LengthBucket, length_rows, length_table
from seq2attn.metrics.significance import MIN_SIGNIFICANT_BLEU, PairedScore, SignificanceTest
from seq2attn.visualization.page import render_page

TEST_NOTES = {
    "bootstrap": "± is half of the 95 % interval over sentences; p tests the difference from {first}, by sacreBLEU's"
    " paired bootstrap (1,000 samples).",
    "randomization": "p tests the difference from {first}, by sacreBLEU's paired approximate randomization (10,000"
    " trials).",
}
P_NOTE = (
    f"p compares one seed of each run: it measures the choice of sentences alone. BLEU has no p where both are below"
    f" {MIN_SIGNIFICANT_BLEU:g}."
)


@dataclass(frozen=True)
class FrequencyBucket:
    """Accuracy of words that occur `lowest` to `highest` times in the training text."""

    lowest: int
    highest: int | None  # None: no limit
    count: int  # such words in the references
    f1: dict[str, float]  # of each run, in percent


@dataclass(frozen=True)
class SentenceDifference:
    """A sentence, and its translations with the words that are not in the reference."""

    line: int  # from 1
    source: str
    reference: str
    chrf: dict[str, float]  # of the translation of each run
    words: dict[str, list[tuple[str, bool]]]  # of each run, with spaces; True for one of the reference, in its order


@dataclass(frozen=True)
class SetComparison:
    """Comparison of all runs on one test set."""

    name: str
    sentences: int
    note: str | None  # on the tokenizer of BLEU and on references
    settings: dict[str, dict[str, Any]]  # of search and engine that differ, of each run
    scores: dict[str, dict[str, PairedScore]]  # by sacreBLEU's name of the metric, such as `chrF2`, and run
    by_length: dict[str, list[LengthBucket]]  # BLEU of each run
    by_frequency: list[FrequencyBucket]  # empty without a training text
    examples: list[SentenceDifference]  # those that differ most first


@dataclass(frozen=True)
class RunComparison:
    """Comparison of runs on all test sets."""

    runs: tuple[str, ...]
    test: SignificanceTest
    seeds: tuple[tuple[str, ...], ...]  # groups of runs that differ in their seed alone
    sets: tuple[SetComparison, ...]

    def __str__(self) -> str:
        """The tables of `seq2attn compare`."""
        return comparison_text(self, markdown=False)


def comparison_html(comparison: RunComparison) -> str:
    """The page: the tables of `comparison_text`, and the sentences that differ most side by side."""
    content = {**asdict(comparison), "seeds": seed_spread(comparison)}
    content["title"] = f"Comparison of {', '.join(comparison.runs)}"
    content["notes"] = [*_notes(comparison), "Words on a red ground are not in the reference, or in another place."]
    content["lengths"] = [length_rows(compared.by_length) for compared in comparison.sets]
    content["frequencies"] = [*map(_frequencies, comparison.sets)]
    return render_page("seq2attn.evaluation", "compare.html", content)


def comparison_text(comparison: RunComparison, *, markdown: bool) -> str:
    """Tables of each test set, and its sentences that differ most."""
    parts = list[str]()
    columns = ["in training", "words", *(f"F1 {run}" for run in comparison.runs)]
    for compared in comparison.sets:
        signatures = {name: next(iter(column.values())).signature for name, column in compared.scores.items()}
        parts += [
            f"{'## ' * markdown}{compared.name}, {compared.sentences:,} sentences",
            _scores(compared, markdown),
            "\n".join(f"{name}: {signature}" for name, signature in signatures.items()),
            length_table(compared.by_length, markdown=markdown),
            *([format_table([columns, *_frequencies(compared)], markdown=markdown)] if compared.by_frequency else []),
            *(_example(example, markdown) for example in compared.examples),
        ]
    if comparison.seeds:
        rows = [(*names, f"{mean:.2f} ± {std:.2f}") for *names, mean, std in seed_spread(comparison)]
        heads = ("test set", "metric", "runs with other seeds", "mean ± standard deviation")
        parts.append(format_table([heads, *rows], num_text_columns=3, markdown=markdown))
    return "\n\n".join([*parts, *_notes(comparison)])


def seed_spread(comparison: RunComparison) -> list[tuple[str, str, str, float, float]]:
    """Test set, metric, runs, mean and standard deviation (n - 1) of each group of runs with other seeds."""
    rows = []
    for compared in comparison.sets:
        for (metric, scores), group in product(compared.scores.items(), comparison.seeds):
            values = [scores[run].value for run in group]
            rows.append((compared.name, metric, ", ".join(group), statistics.fmean(values), statistics.stdev(values)))
    return rows


def _notes(comparison: RunComparison) -> list[str]:
    notes = [TEST_NOTES[comparison.test].format(first=comparison.runs[0]), P_NOTE]
    if any(compared.by_frequency for compared in comparison.sets):
        notes.append(f"Words are counted in the training text of {comparison.runs[0]}.")
    notes += [f"{compared.name}: {compared.note}." for compared in comparison.sets if compared.note]
    for compared in comparison.sets:
        for key, values in compared.settings.items():
            shown = ", ".join(f"{json.dumps(value, ensure_ascii=False)} of {run}" for run, value in values.items())
            notes.append(f"{compared.name} was translated with different settings: `{key}` is {shown}.")
    return notes


def _scores(compared: SetComparison, markdown: bool) -> str:
    runs = next(iter(compared.scores.values()))
    rows = [[run, *(_score(scores[run]) for scores in compared.scores.values())] for run in runs]
    return format_table([["run", *compared.scores], *rows], markdown=markdown)


def _score(score: PairedScore) -> str:
    interval = "" if score.interval is None else f" ± {score.interval:.2f}"
    p_value = "" if score.p_value is None else f" (p = {score.p_value:.3f})"
    return f"{score.value:.2f}{interval}{p_value}"


def _frequencies(compared: SetComparison) -> list[list[str]]:
    return [
        [_range(bucket), f"{bucket.count:,}", *(f"{f1:.1f}" for f1 in bucket.f1.values())]
        for bucket in compared.by_frequency
    ]


def _range(bucket: FrequencyBucket) -> str:
    if bucket.highest is None:
        return f"{bucket.lowest}+"
    return str(bucket.lowest) if bucket.lowest == bucket.highest else f"{bucket.lowest}-{bucket.highest}"


def _example(example: SentenceDifference, markdown: bool) -> str:
    """A sentence with its translations; words that are not in the reference are in brackets, or bold."""
    mark = "**{}**" if markdown else "[{}]"
    escape = _escape_markdown if markdown else str
    lines = [("source", escape(example.source), ""), ("reference", escape(example.reference), "")]
    for run, words in example.words.items():
        marked = (  # the space after a word is not marked
            escape(word) if matches else mark.format(escape(word.rstrip())) + " " * word.endswith(" ")
            for word, matches in words
        )
        lines.append((run, "".join(marked).rstrip(), f"chrF {example.chrf[run]:.1f}"))
    heads = (f"line {example.line}", "text", "")
    return format_table([heads, *lines], num_text_columns=2, markdown=markdown)


def _escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is; a table escapes `|`."""
    return re.sub(r"[\\`*_~<&\[\]]", r"\\\g<0>", text)
