"""Counts over the pairs of a corpus, made while they are encoded.

Shapes: N pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from seq2attn.data.filter import Encoded
from seq2attn.data.inspection.overlap import Hashes, hash_pairs
from seq2attn.data.inspection.text_style import TextStyle
from seq2attn.text.tokenizer import Tokenizer
from seq2attn.text.vocabulary import UNK

CHUNK = 1000
"""Pairs counted at a time."""
MAX_CASED = 100
"""Lines with capitals that show whether a tokenizer ignores case."""


@dataclass(frozen=True)
class Distribution:
    """Mean, median, percentiles and maximum of the lengths of lines; all 0 where there is no line."""

    mean: float = 0.0
    median: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    maximum: int = 0
    maximum_line: int = 0  # the first of that length, counted from 1

    @classmethod
    def from_values(cls, values: NDArray[np.int64]) -> Distribution:
        """That of a number a line, [N]"""
        if not len(values):
            return cls()
        median, p95, p99 = np.percentile(values, (50, 95, 99)).tolist()
        return cls(float(values.mean()), median, p95, p99, int(values.max()), int(values.argmax()) + 1)


@dataclass(frozen=True)
class SideStatistics:
    """Counts over the source or the target lines of a corpus."""

    token_lengths: Distribution
    num_tokens: int
    num_unknown: int  # of these
    style: TextStyle  # without case where the tokenizer ignores it

    @property
    def unknown_rate(self) -> float:
        """The share of tokens that are `<unk>`."""
        return self.num_unknown / max(self.num_tokens, 1)


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
        self._sides = _Side(source), _Side(target)
        self._hashes = [np.zeros(0, dtype=np.uint64)]

    def inspect(self, pairs: Iterable[Encoded]) -> Iterator[Encoded]:
        """The pairs, counted as they pass."""
        pairs = iter(pairs)
        while chunk := list(islice(pairs, CHUNK)):
            self._hashes.append(hash_pairs(pair.text for pair in chunk))
            self._sides[0].add([pair.text[0] for pair in chunk], [pair.source for pair in chunk])
            self._sides[1].add([pair.text[1] for pair in chunk], [pair.target for pair in chunk])
            yield from chunk

    @property
    def hashes(self) -> Hashes:
        """The hashes of all pairs, [N]"""
        return np.concatenate(self._hashes)

    def report(self, train: Hashes | None = None) -> CorpusReport:
        """The counts. `train` has the hashes of the training pairs that a dev or test set should not have."""
        source, target = self._sides
        is_empty = [np.array(side.lengths) == 0 for side in self._sides]
        hashes = self.hashes
        return CorpusReport(
            num_pairs=len(hashes),
            source=source.statistics(),
            target=target.statistics(),
            num_empty=int((is_empty[0] & is_empty[1]).sum()),
            num_one_sided=int((is_empty[0] ^ is_empty[1]).sum()),
            num_duplicates=len(hashes) - len(np.unique(hashes)),
            num_in_train=None if train is None else int(np.isin(hashes, train).sum()),
        )


class _Side:
    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.lengths: list[int] = []
        self._num_unknown, self._style = 0, TextStyle()
        self._cased: list[str] = []  # some lines with capitals

    def add(self, lines: list[str], ids: list[list[int]]) -> None:
        """Count some more lines, encoded as `ids`."""
        self.lengths += map(len, ids)
        self._num_unknown += sum(line.count(UNK) for line in ids)
        self._style += TextStyle.from_lines(lines)
        cased = (line for line in lines if line != line.lower())
        self._cased += islice(cased, MAX_CASED - len(self._cased))

    def statistics(self) -> SideStatistics:
        """The counts."""
        lengths = np.array(self.lengths, dtype=np.int64)
        encode = self._tokenizer.encode
        ignores_case = all(encode(line) == encode(line.lower()) for line in self._cased)
        style = self._style.without_case() if self._cased and ignores_case else self._style
        return SideStatistics(Distribution.from_values(lengths), int(lengths.sum()), self._num_unknown, style)


def inspect_pairs(
    pairs: Iterable[tuple[str, str]],
    source: Tokenizer,
    target: Tokenizer,
    train: Hashes | None = None,
) -> CorpusReport:
    """Counts over the pairs of a dev or test set."""
    inspector = CorpusInspector(source, target)
    encoded = (Encoded(pair, source.encode(pair[0]), target.encode(pair[1])) for pair in pairs)
    for _ in inspector.inspect(encoded):
        pass
    return inspector.report(train)
