"""The report on the text of a run, and the warnings that follow.

data-report.json    the whole report; `translate` and `evaluate` compare their input with it
data-report.txt     the same in human-readable form
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from seq2attn.data.inspection.statistics import CorpusReport
from seq2attn.data.training_set import TrainingPart
from seq2attn.errors import RunError
from seq2attn.io.files import read_object, write_bytes, write_json
from seq2attn.io.tables import format_table

REPORT_JSON, REPORT_TEXT = "data-report.json", "data-report.txt"
HINT = "remove it, and input is translated without being compared with the training text"

MAX_UNKNOWN_SHARE = MAX_IN_TRAIN_SHARE = 0.01
MAX_FILTERED_SHARE = MAX_DUPLICATE_SHARE = 0.1
MAX_ONE_SIDED_SHARE = 0.001
MIN_PAIRS = 3
"""Minimum number of pairs for a warning, regardless of their share."""


@dataclass(frozen=True)
class TrainingCorpusReport:
    """One of the training corpora, after filters."""

    name: str  # `train`, or `train 1`, `train 2` ... if there are several
    files: tuple[str, ...]
    tag: str | None
    part: TrainingPart


@dataclass(frozen=True)
class DataReport:
    """Statistics of all corpora of a run."""

    corpora: tuple[TrainingCorpusReport, ...]
    train: CorpusReport  # all training corpora together
    dev: CorpusReport
    tests: Mapping[str, CorpusReport]

    def corpus_lines(self) -> list[str]:
        """For each training corpus the counts of filters; its share of an epoch, too, if there are several."""
        if len(self.corpora) == 1:
            return [f"train: {self.corpora[0].part.report}"]
        total = sum(corpus.part.num_pairs_per_epoch for corpus in self.corpora)
        return [
            f"{corpus.name} ({', '.join(corpus.files)}): {corpus.part.report}; each {corpus.part.repeat:g} times an"
            f" epoch, {corpus.part.num_pairs_per_epoch / total:.1%} of its pairs"
            + (f"; tag <{corpus.tag}>" if corpus.tag else "")
            for corpus in self.corpora
        ]

    def warnings(self) -> list[str]:
        """Warnings about the text, one line each."""
        train, warnings = self.train, [*_corpus_warnings("train", self.train)]
        for corpus in self.corpora:
            filters = corpus.part.report
            if filters.num_read - filters.num_kept > MAX_FILTERED_SHARE * filters.num_read:
                warnings.append(f"{corpus.name}: {filters}")
        if train.num_duplicates > max(MIN_PAIRS, MAX_DUPLICATE_SHARE * train.num_pairs):
            warnings.append(
                f"train: {train.num_duplicates:,} pairs ({train.num_duplicates / train.num_pairs:.1%}) are duplicates;"
                " `data.filters.drop_duplicates: true` leaves them out"
            )
        for name, report in {"dev": self.dev, **self.tests}.items():
            warnings += test_set_warnings(name, report, train)
        return warnings

    def save(self, folder: Path) -> None:
        """Write the report to a run directory."""
        write_json(folder / REPORT_JSON, asdict(self))
        reports = {"train": self.train, "dev": self.dev, **self.tests}
        columns = [dict(_cells(asdict(report))) for report in reports.values()]
        table = format_table([["", *reports], *([name, *(cells[name] for cells in columns)] for name in columns[0])])
        warnings = [f"warning: {line}" for line in self.warnings()] or ["no warnings"]
        write_bytes(folder / REPORT_TEXT, "\n".join([*self.corpus_lines(), "", table, "", *warnings, ""]).encode())

    @classmethod
    def load(cls, folder: Path) -> DataReport | None:
        """The report of a run directory; None if it is missing. Raises RunError for a corrupt file."""
        path = folder / REPORT_JSON
        if not path.exists():
            return None
        content = read_object(path, HINT)
        try:
            return TypeAdapter(DataReport).validate_python(content)
        except ValidationError as error:
            key = ".".join(map(str, error.errors()[0]["loc"]))
            raise RunError(f"{path}: is not a report on data, or is corrupt (at `{key}`); {HINT}") from None


def test_set_warnings(name: str, report: CorpusReport, train: CorpusReport | None) -> list[str]:
    """Warnings about a dev or test set, one line each; `train` is the training text, if known."""
    warnings = [*_corpus_warnings(name, report)]
    num_in_train = report.num_in_train or 0
    if num_in_train > max(MIN_PAIRS, MAX_IN_TRAIN_SHARE * report.num_pairs):
        warnings.append(
            f"{name}: {num_in_train:,} of its {report.num_pairs:,} pairs ({num_in_train / report.num_pairs:.1%})"
            " are training pairs, so that its scores are too high"
        )
    for (side, statistics), (_, of_train) in zip(report.sides, train.sides if train else (), strict=False):
        warnings += [f"{name}: the {side} {difference}" for difference in statistics.style.differences(of_train.style)]
    return warnings


def _corpus_warnings(name: str, report: CorpusReport) -> Iterator[str]:
    for side, one in report.sides:
        if one.num_unknown > MAX_UNKNOWN_SHARE * one.num_tokens:
            share = f"{one.num_unknown / one.num_tokens:.1%} unknown tokens"
            yield f"{name}: the {side} has {share}, {one.num_unknown:,} of {one.num_tokens:,}"
    if report.num_one_sided >= max(MIN_PAIRS, MAX_ONE_SIDED_SHARE * report.num_pairs):
        yield f"{name}: {report.num_one_sided:,} pairs have text on one side only"


def _cells(counts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Names and values of a column of the table."""
    for name, value in counts.items():
        if isinstance(value, Mapping):
            yield from _cells(value, f"{prefix}{name}.")
        else:
            yield prefix + name, "" if value is None else format(value, ",.6g" if isinstance(value, float) else ",")
