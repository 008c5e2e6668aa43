"""Inspection of text: statistics of each corpus, its comparison with the training text, and warnings.

data-report.json    all statistics and warnings; `translate` and `evaluate` compare their input with the training text
data/hashes.npy     a hash of each training pair that filters keep, by which these are found in test sets
"""

from __future__ import annotations

import unicodedata
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from seq2attn.data.corpus import CORPUS_HINT, load_array
from seq2attn.data.filter import EncodedPair
from seq2attn.errors import RunError
from seq2attn.io.files import MAX_FILE_BYTES, atomic_path, read_object, validate, write_json
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.normalize import NormalizeConfig
from seq2attn.tokenizers.vocabulary import UNK

Hashes: TypeAlias = NDArray[np.uint64]
"""A hash of each pair, [pairs]."""
REPORT_FILE, HASHES_FILE = "data-report.json", "data/hashes.npy"
REPORT_HINT = "remove it, and input is translated without being compared with the training text"

MAX_IN_TRAIN_SHARE = 0.01
MAX_DUPLICATE_SHARE = 0.1
MAX_ONE_SIDED_SHARE = 0.001
MIN_PAIRS = 3
"""Minimum number of pairs for a warning, regardless of their share."""
MIN_SCRIPT_SHARE, MIN_LETTER_SHARE = 1e-3, 1e-4
"""Shares of the training text's characters from which a model knows all letters of a script, and a letter alone."""
MAX_UNKNOWN_SHARE, MIN_UNKNOWN = 0.01, 3
"""Share of a text's characters above which unknown ones are reported, and their minimum number."""
NUM_EXAMPLES = 5


@dataclass(frozen=True)
class SideStatistics:
    """Statistics of all source or target lines."""

    num_tokens: int
    num_unknown: int  # of these
    length_quantiles: Mapping[str, float]  # tokens of a line; 0 for an empty corpus
    characters: Mapping[str, int] = field(default_factory=dict)  # counts; none if a model may know others, too

    @cached_property
    def known_characters(self) -> frozenset[str]:
        """The characters that a model knows by this training text: without letters of scripts that it hardly has."""
        total, scripts = sum(self.characters.values()), Counter[str]()
        for character, count in self.characters.items():
            scripts[_script(character)] += count
        are_known = (
            count >= MIN_LETTER_SHARE * total or scripts[_script(character)] >= MIN_SCRIPT_SHARE * total
            for character, count in self.characters.items()
        )
        return frozenset(compress(self.characters, are_known))

    def with_earlier(self, characters: Mapping[str, int]) -> SideStatistics:
        """The statistics with the characters of earlier text; without any if these are none."""
        counts = Counter(self.characters) + Counter(characters) if characters else Counter[str]()
        return replace(self, characters=dict(counts.most_common()))


@dataclass(frozen=True)
class CorpusReport:
    """Statistics of a corpus before filters."""

    num_pairs: int
    num_empty: int  # pairs with text on neither side
    num_one_sided: int  # pairs with text on one side only
    num_duplicates: int  # pairs equal to an earlier one
    num_in_train: int | None  # pairs that are also training pairs; None if unknown
    source: SideStatistics
    target: SideStatistics

    def with_earlier(self, run: Path, fingerprint: str = "") -> CorpusReport:
        """The report with the characters of the training text of a run; without any if they are not known.

        A report of the text with this `fingerprint` has them already: the preparation was interrupted after it.
        """
        report = DataReport.load(run)
        if report and report.fingerprint and report.fingerprint == fingerprint:
            return report.train
        source, target = (report.train.source.characters, report.train.target.characters) if report else ({}, {})
        return replace(self, source=self.source.with_earlier(source), target=self.target.with_earlier(target))

    def warnings(self, name: str, train: CorpusReport | None = None, fix: str = "") -> Iterator[str]:
        """Warnings about a corpus compared with the training text `train`, a line each; `fix` is that of duplicates."""
        sides = ("source", self.source, train and train.source), ("target", self.target, train and train.target)
        for side, statistics, training in sides:
            if statistics.num_unknown > MAX_UNKNOWN_SHARE * statistics.num_tokens:
                share = f"{statistics.num_unknown / statistics.num_tokens:.1%} unknown tokens"
                yield f"{name}: the {side} has {share}, {statistics.num_unknown:,} of {statistics.num_tokens:,}"
            elif training and (unknown := describe_unknown(statistics.characters, training.known_characters)):
                yield f"{name}: the {side} has characters that are missing or rare in the training text: {unknown}"
        if self.num_one_sided >= max(MIN_PAIRS, MAX_ONE_SIDED_SHARE * self.num_pairs):
            yield f"{name}: {self.num_one_sided:,} pairs have text on one side only"
        if self.num_duplicates > max(MIN_PAIRS, MAX_DUPLICATE_SHARE * self.num_pairs):
            share = f"{self.num_duplicates:,} pairs ({self.num_duplicates / self.num_pairs:.1%})"
            yield f"{name}: {share} are duplicates{fix}"
        num_in_train = self.num_in_train or 0
        if num_in_train > max(MIN_PAIRS, MAX_IN_TRAIN_SHARE * self.num_pairs):
            share = f"{num_in_train:,} of its {self.num_pairs:,} pairs ({num_in_train / self.num_pairs:.1%})"
            yield f"{name}: {share} are training pairs, so that its scores are too high"


@dataclass
class _SideCounts:
    """Counts over the lines of a side."""

    tokenizer: Tokenizer
    num_unknown: int = 0
    lengths: array[int] = field(default_factory=lambda: array("i"))
    characters: Counter[str] = field(default_factory=Counter)

    def add(self, line: str, ids: Sequence[int]) -> None:
        self.lengths.append(len(ids))
        self.num_unknown += ids.count(UNK)
        if isinstance(self.tokenizer.config, NormalizeConfig):  # trained on this text, or on that of another run
            self.characters.update(self.tokenizer.untagged(line))

    def statistics(self) -> SideStatistics:
        shares = {"median": 50, "95 %": 95, "99 %": 99, "longest": 100}
        quantiles = dict(zip(shares, np.percentile(self.lengths or [0], [*shares.values()]).tolist(), strict=True))
        return SideStatistics(sum(self.lengths), self.num_unknown, quantiles, dict(self.characters.most_common()))


class CorpusInspector:
    """Statistics of the pairs that pass through it."""

    def __init__(self, *tokenizers: Tokenizer) -> None:
        self._hashes = array("Q")
        self._sides = [_SideCounts(tokenizer) for tokenizer in tokenizers]

    def inspect(self, pairs: Iterable[EncodedPair]) -> Iterator[EncodedPair]:
        """The same pairs, counted."""
        for pair in pairs:
            self._hashes.append(pair.hash)
            for side, line, ids in zip(self._sides, pair.text, pair.ids, strict=True):
                side.add(line, ids)
            yield pair

    def report(self, train: Hashes | None = None) -> CorpusReport:
        """The statistics. `train` are the hashes of the training pairs, for a dev or test set."""
        hashes = np.array(self._hashes, np.uint64)
        source_is_empty, target_is_empty = (np.array(side.lengths) == 0 for side in self._sides)
        source, target = (side.statistics() for side in self._sides)
        return CorpusReport(
            num_pairs=len(hashes),
            num_empty=int((source_is_empty & target_is_empty).sum()),
            num_one_sided=int((source_is_empty ^ target_is_empty).sum()),
            num_duplicates=len(hashes) - len(np.unique(hashes)),
            num_in_train=None if train is None else int(np.isin(hashes, train).sum()),
            source=source,
            target=target,
        )


@dataclass(frozen=True)
class DataReport:
    """Statistics of all corpora of a run."""

    train: CorpusReport  # all training corpora together
    dev: CorpusReport
    tests: Mapping[str, CorpusReport]
    fingerprint: str = ""  # of the training text and the dev set; none in reports of earlier versions

    def warnings(self) -> list[str]:
        """Warnings about the text, one line each."""
        others = [("dev", self.dev), *self.tests.items()]  # a test set may be called `dev`, too
        compared = (warning for name, report in others for warning in report.warnings(name, self.train))
        fix = "; `data.filters.drop_duplicates: true` leaves them out"  # of the training text alone
        return [*self.train.warnings("train", fix=fix), *compared]

    def save(self, run: Path) -> Path:
        """Write the report to a run directory. Returns its file."""
        write_json(run / REPORT_FILE, {"warnings": self.warnings(), **asdict(self)})
        return run / REPORT_FILE

    @classmethod
    def load(cls, run: Path) -> DataReport | None:
        """The report of a run directory; None if it is missing. Raises RunError for a corrupt file."""
        path = run / REPORT_FILE
        if not path.exists():
            return None
        problem = "is not a report on data, or is corrupt"
        content = read_object(path, REPORT_HINT, MAX_FILE_BYTES)
        return validate(cls, content, path, problem, REPORT_HINT)


def inspect_pairs(
    pairs: Iterable[tuple[str, str]], source: Tokenizer, target: Tokenizer, train: Hashes | None = None
) -> CorpusReport:
    """Statistics of a dev or test set. `train` are the hashes of the training pairs."""
    inspector = CorpusInspector(source, target)
    for _ in inspector.inspect(EncodedPair(pair, (source.encode(pair[0]), target.encode(pair[1]))) for pair in pairs):
        pass
    return inspector.report(train)


def save_hashes(hashes: Hashes, run: Path) -> None:
    """Write the hashes of the training pairs to a run directory."""
    with atomic_path(run / HASHES_FILE) as partial, partial.open("wb") as file:
        np.save(file, hashes)


def load_hashes(run: Path) -> Hashes | None:
    """The hashes of a run's training pairs; None if they are missing. Raises RunError for a corrupt file."""
    path = run / HASHES_FILE
    hashes = load_array(path) if path.is_file() else None
    if hashes is not None and (hashes.dtype != np.uint64 or hashes.ndim != 1):
        raise RunError(f"{path}: does not hold hashes of pairs; {CORPUS_HINT}")
    return hashes


def _script(character: str) -> str:
    """The first word of the name of a letter, such as LATIN or CJK; all other characters are one script."""
    return unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""


def describe_unknown(characters: Mapping[str, int], known: Collection[str]) -> str | None:
    """The share of the `characters` of a text that are not known, with examples.

    None for a small share, and if no known ones are given: then a model may know all.
    """
    unknown = Counter({character: count for character, count in characters.items() if character not in known})
    total, num_unknown = sum(characters.values()), unknown.total()
    if not known or num_unknown < MIN_UNKNOWN or num_unknown <= MAX_UNKNOWN_SHARE * total:
        return None
    most = (character for character, _ in unknown.most_common(NUM_EXAMPLES))
    examples = " ".join(letter if letter.isprintable() else f"U+{ord(letter):04X}" for letter in most)
    return f"{num_unknown / total:.1%} of the characters, {num_unknown:,} of {total:,} ({examples})"
