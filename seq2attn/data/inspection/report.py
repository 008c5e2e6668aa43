"""The report on the text of a run, kept beside the model that was trained on it, and the warnings that follow.

data-report.json    all of it; `translate` and `evaluate` compare their input with it
data-report.txt     the same for people
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

MAX_UNKNOWN_SHARE, MAX_IN_TRAIN_SHARE = 0.01, 0.01
MAX_FILTERED_SHARE, MAX_DUPLICATE_SHARE = 0.1, 0.1
MAX_ONE_SIDED_SHARE = 0.001
MIN_PAIRS = 3
"""Fewer pairs are not worth a warning, whatever their share."""


@dataclass(frozen=True)
class TrainingCorpusReport:
    """A training corpus by itself, after filters."""

    name: str  # `train`, or `train 1`, `train 2` ... of several
    files: tuple[str, ...]
    tag: str | None
    part: TrainingPart


@dataclass(frozen=True)
class DataReport:
    """Counts over all corpora of a run."""

    corpora: tuple[TrainingCorpusReport, ...]
    train: CorpusReport  # all training corpora together
    dev: CorpusReport
    tests: Mapping[str, CorpusReport]
    tests_fingerprint: str  # of the files of the test sets

    def corpus_lines(self) -> list[str]:
        """For each training corpus what filters left of it; of several also their shares of an epoch."""
        if len(self.corpora) == 1:
            return [f"train: {self.corpora[0].part.report}"]
        total = sum(one.part.num_pairs_per_epoch for one in self.corpora)
        return [
            f"{one.name} ({', '.join(one.files)}): {one.part.report}; each {one.part.repeat:g} times an epoch,"
            f" {one.part.num_pairs_per_epoch / total:.1%} of its pairs" + (f"; tag <{one.tag}>" if one.tag else "")
            for one in self.corpora
        ]

    @property
    def evaluation_sets(self) -> dict[str, CorpusReport]:
        """The dev set and the test sets, by name."""
        return {"dev": self.dev, **self.tests}

    @property
    def summary(self) -> str:
        """One line on the lengths of the training text."""
        source, target = self.train.source, self.train.target
        return (
            f"source and target have {source.median_length:.0f} and {target.median_length:.0f} tokens in the median,"
            f" {source.max_length:,} and {target.max_length:,} at most"
        )

    def warnings(self) -> list[str]:
        """What the owner of the text should know before training, a line each."""
        train, found = self.train, [*_corpus_warnings("train", self.train)]
        for one in self.corpora:
            filters = one.part.report
            if filters.num_read - filters.num_kept > MAX_FILTERED_SHARE * filters.num_read:
                found.append(f"{one.name}: {filters}")
        if train.num_duplicates > max(MIN_PAIRS, MAX_DUPLICATE_SHARE * train.num_pairs):
            share = train.num_duplicates / train.num_pairs
            found.append(
                f"train: {train.num_duplicates:,} pairs ({share:.1%}) came before;"
                " `data.filters.drop_duplicates: true` leaves them out"
            )
        for name, report in self.evaluation_sets.items():
            found += test_set_warnings(name, report, train)
        return found

    def save(self, folder: Path) -> None:
        """Write what `load` reads, and the same for people."""
        write_json(folder / REPORT_JSON, asdict(self))
        reports = {"train": self.train, **self.evaluation_sets}
        columns = [dict(_cells(asdict(one))) for one in reports.values()]
        rows = [[what, *(column[what] for column in columns)] for what in columns[0]]
        table = format_table([["", *reports], *rows])
        warnings = [f"warning: {line}" for line in self.warnings()] or ["no warnings"]
        text = "\n".join([*self.corpus_lines(), "", table, "", *warnings, ""])
        write_bytes(folder / REPORT_TEXT, text.encode())

    @classmethod
    def load(cls, folder: Path) -> DataReport | None:
        """The report of a run; None where it has none.

        Raises: RunError for a file that is no such report.
        """
        path = folder / REPORT_JSON
        if not path.exists():
            return None
        content = read_object(path, HINT)
        try:
            return TypeAdapter(DataReport).validate_python(content)
        except ValidationError as error:
            where = ".".join(map(str, error.errors()[0]["loc"]))
            raise RunError(f"{path}: is no report on data, or is corrupt (at `{where}`); {HINT}") from None


def test_set_warnings(name: str, report: CorpusReport, train: CorpusReport | None) -> list[str]:
    """What should be known of a dev or test set before its scores are believed, a line each."""
    found = list(_corpus_warnings(name, report))
    in_train = report.num_in_train or 0
    if in_train > max(MIN_PAIRS, MAX_IN_TRAIN_SHARE * report.num_pairs):
        found.append(
            f"{name}: {in_train:,} of its {report.num_pairs:,} pairs ({in_train / report.num_pairs:.1%})"
            " are training pairs; scores on them measure memory"
        )
    if train is not None:
        for (side, ours), (_, theirs) in zip(report.sides, train.sides, strict=True):
            found += [f"{name}: the {side} {what}" for what in ours.style.differences(theirs.style)]
    return found


def _corpus_warnings(name: str, report: CorpusReport) -> Iterator[str]:
    for side, one in report.sides:
        if one.num_unknown > MAX_UNKNOWN_SHARE * one.num_tokens:
            share = f"{one.num_unknown / one.num_tokens:.1%} unknown tokens"
            yield f"{name}: the {side} has {share}, {one.num_unknown:,} of {one.num_tokens:,}"
    if report.num_one_sided >= max(MIN_PAIRS, MAX_ONE_SIDED_SHARE * report.num_pairs):
        yield f"{name}: {report.num_one_sided:,} pairs have text on one side only"


def _cells(counts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The names and values of a column of the table."""
    for name, value in counts.items():
        if isinstance(value, Mapping):
            yield from _cells(value, f"{prefix}{name}.")
        else:
            yield (
                prefix + name,
                "" if value is None else f"{value:,.6g}" if isinstance(value, float) else f"{value:,}",
            )
