"""Statistics of the pairs of a corpus."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from seq2attn.data.filter import EncodedPair
from seq2attn.data.inspection.overlap import Hashes, hash_pairs
from seq2attn.data.inspection.text_style import TextStyle
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.vocabulary import UNK

CHUNK = 1000
"""Number of pairs that are counted at a time."""


@dataclass(frozen=True)
class SideStatistics:
    """Statistics of all source or target lines; lengths are in tokens, 0 for an empty corpus."""

    num_tokens: int
    num_unknown: int  # of these
    mean_length: float
    median_length: float
    p95_length: float
    p99_length: float
    max_length: int
    max_length_line: int  # number of the first line of that length, counted from 1
    style: TextStyle


@dataclass(frozen=True)
class CorpusReport:
    """Statistics of a corpus before filters."""

    num_pairs: int
    source: SideStatistics
    target: SideStatistics
    num_empty: int  # pairs with text on neither side
    num_one_sided: int  # pairs with text on one side only
    num_duplicates: int  # pairs equal to an earlier one
    num_in_train: int | None = None  # pairs that are also training pairs; None if unknown

    @property
    def sides(self) -> tuple[tuple[str, SideStatistics], ...]:
        """Both sides with their names."""
        return ("source", self.source), ("target", self.target)


class CorpusInspector:
    """Statistics of the pairs that pass through it."""

    def __init__(self, source: Tokenizer, target: Tokenizer) -> None:
        self._sides = _SideCounter(source), _SideCounter(target)
        self._hashes = [hash_pairs([])]

    def inspect(self, pairs: Iterable[EncodedPair]) -> Iterator[EncodedPair]:
        """The same pairs, counted."""
        pairs = iter(pairs)
        while chunk := list(islice(pairs, CHUNK)):
            self._hashes.append(hash_pairs(pair.text for pair in chunk))
            for index, side in enumerate(self._sides):
                side.add([pair.text[index] for pair in chunk], [pair.ids[index] for pair in chunk])
            yield from chunk

    @property
    def hashes(self) -> Hashes:
        """The hashes of all pairs, [pairs]."""
        return np.concatenate(self._hashes)

    def report(self, train: Hashes | None = None) -> CorpusReport:
        """The statistics. `train` are the hashes of the training pairs, for a dev or test set."""
        source, target = self._sides
        source_is_empty, target_is_empty = (np.array(side.lengths) == 0 for side in self._sides)
        hashes = self.hashes
        return CorpusReport(
            num_pairs=len(hashes),
            source=source.statistics(),
            target=target.statistics(),
            num_empty=int((source_is_empty & target_is_empty).sum()),
            num_one_sided=int((source_is_empty ^ target_is_empty).sum()),
            num_duplicates=len(hashes) - len(np.unique(hashes)),
            num_in_train=None if train is None else int(np.isin(hashes, train).sum()),
        )


class _SideCounter:
    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.lengths = array("i")
        self._num_unknown, self._style, self._ignores_case = 0, TextStyle(), True

    def add(self, lines: list[str], ids: list[list[int]]) -> None:
        title_case = (self._tokenizer.encode(line.title()) for line in lines[:50])
        self._ignores_case = self._ignores_case and all(map(list.__eq__, title_case, ids))
        self.lengths.extend(map(len, ids))
        self._num_unknown += sum(line.count(UNK) for line in ids)
        self._style += TextStyle.from_lines(lines)

    def statistics(self) -> SideStatistics:
        lengths = np.array(self.lengths or [0])
        median, p95, p99 = np.percentile(lengths, (50, 95, 99)).tolist()
        return SideStatistics(
            num_tokens=int(lengths.sum()),
            num_unknown=self._num_unknown,
            mean_length=float(lengths.mean()),
            median_length=median,
            p95_length=p95,
            p99_length=p99,
            max_length=int(lengths.max()),
            max_length_line=int(lengths.argmax()) + bool(self.lengths),
            style=replace(self._style, num_upper=0, num_cased=0) if self._ignores_case else self._style,
        )


def inspect_pairs(
    pairs: Iterable[tuple[str, str]], source: Tokenizer, target: Tokenizer, train: Hashes | None = None
) -> CorpusReport:
    """Statistics of a dev or test set. `train` are the hashes of the training pairs."""
    inspector = CorpusInspector(source, target)
    for _ in inspector.inspect(EncodedPair(pair, (source.encode(pair[0]), target.encode(pair[1]))) for pair in pairs):
        pass
    return inspector.report(train)
