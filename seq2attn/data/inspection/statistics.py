"""Counts over the pairs of a corpus, made while they are encoded."""

from __future__ import annotations

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
"""Pairs counted at a time."""


@dataclass(frozen=True)
class SideStatistics:
    """Counts over the source or the target lines of a corpus; lengths are in tokens, all 0 without a line."""

    num_tokens: int
    num_unknown: int  # of these
    mean_length: float
    median_length: float
    p95_length: float
    p99_length: float
    max_length: int
    max_length_line: int  # the first of that length, counted from 1
    style: TextStyle


@dataclass(frozen=True)
class CorpusReport:
    """Counts over a corpus as it was read, before filters."""

    num_pairs: int
    source: SideStatistics
    target: SideStatistics
    num_empty: int  # pairs with text on neither side
    num_one_sided: int  # pairs with text on one side only
    num_duplicates: int  # pairs that are the same as an earlier one
    num_in_train: int | None = None  # pairs that are training pairs, too; None where that is not known

    @property
    def sides(self) -> tuple[tuple[str, SideStatistics], ...]:
        """Both sides with their names."""
        return ("source", self.source), ("target", self.target)


class CorpusInspector:
    """Counts of the pairs that pass through it."""

    def __init__(self, source: Tokenizer, target: Tokenizer) -> None:
        self._sides = _SideStatistics(source), _SideStatistics(target)
        self._hashes = [np.zeros(0, dtype=np.uint64)]

    def inspect(self, pairs: Iterable[EncodedPair]) -> Iterator[EncodedPair]:
        """The pairs, counted as they pass."""
        pairs = iter(pairs)
        while chunk := list(islice(pairs, CHUNK)):
            self._hashes.append(hash_pairs(pair.text for pair in chunk))
            self._sides[0].add([pair.text[0] for pair in chunk], [pair.source_ids for pair in chunk])
            self._sides[1].add([pair.text[1] for pair in chunk], [pair.target_ids for pair in chunk])
            yield from chunk

    @property
    def hashes(self) -> Hashes:
        """The hashes of all pairs, [pairs]"""
        return np.concatenate(self._hashes)

    def report(self, train: Hashes | None = None) -> CorpusReport:
        """The counts. `train` has the hashes of the training pairs that a dev or test set should not have."""
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


class _SideStatistics:
    def __init__(self, tokenizer: Tokenizer) -> None:
        self._encode = tokenizer.encode
        self.lengths: list[int] = []
        self._num_unknown, self._style = 0, TextStyle()
        self._ignores_case = True

    def add(self, lines: list[str], ids: list[list[int]]) -> None:
        """Count some more lines, encoded as `ids`."""
        self._ignores_case = self._ignores_case and all(map(self._is_same_in_title_case, lines[:50], ids))
        self.lengths += map(len, ids)
        self._num_unknown += sum(line.count(UNK) for line in ids)
        self._style += TextStyle.from_lines(lines)

    def _is_same_in_title_case(self, line: str, ids: list[int]) -> bool:
        return self._encode(line.title()) == ids

    def statistics(self) -> SideStatistics:
        """The counts."""
        lengths = np.array(self.lengths or [0])
        median, p95, p99 = np.percentile(lengths, (50, 95, 99)).tolist()
        style = replace(self._style, num_upper=0, num_cased=0) if self._ignores_case else self._style
        return SideStatistics(
            num_tokens=int(lengths.sum()),
            num_unknown=self._num_unknown,
            mean_length=float(lengths.mean()),
            median_length=median,
            p95_length=p95,
            p99_length=p99,
            max_length=int(lengths.max()),
            max_length_line=int(lengths.argmax()) + bool(self.lengths),
            style=style,
        )


def inspect_pairs(
    pairs: Iterable[tuple[str, str]],
    source: Tokenizer,
    target: Tokenizer,
    train: Hashes | None = None,
) -> CorpusReport:
    """Counts over the pairs of a dev or test set."""
    inspector = CorpusInspector(source, target)
    encoded = (EncodedPair(pair, source.encode(pair[0]), target.encode(pair[1])) for pair in pairs)
    for _ in inspector.inspect(encoded):
        pass
    return inspector.report(train)
