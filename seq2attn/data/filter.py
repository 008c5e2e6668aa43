"""Which pairs are fit to learn from."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, astuple, dataclass
from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from seq2attn.config.base import Config
from seq2attn.data.word_alignment import WordAlignment

Reason = Literal["empty", "too_long", "unbalanced", "duplicate"]


@dataclass(frozen=True)
class EncodedPair:
    """A pair as text and as ids without BOS and EOS, and its links where they are known."""

    text: tuple[str, str]
    source_ids: list[int]
    target_ids: list[int]
    alignment: WordAlignment | None = None


class FiltersConfig(Config):
    """Which training pairs to leave out; pairs with an empty side always are."""

    max_length: PositiveInt = 256
    """Most tokens of either side."""
    max_length_ratio: Annotated[float, Field(ge=1)] | None = None
    """Most tokens of the longer side for one of the shorter; none: no limit."""
    drop_duplicates: bool = False
    """Leave out pairs that are exactly the same text as an earlier one."""

    def rejection_reason(self, pair: EncodedPair) -> Reason | None:
        """Why a pair is left out whatever the others are."""
        shorter, longer = sorted((len(pair.source_ids), len(pair.target_ids)))
        if shorter == 0:
            return "empty"
        if longer > self.max_length:
            return "too_long"
        if self.max_length_ratio is not None and longer > self.max_length_ratio * shorter:
            return "unbalanced"
        return None


@dataclass(frozen=True)
class FilterReport:
    """How many pairs were read and kept, and why the others were not."""

    num_read: int
    num_kept: int
    empty: int = 0
    too_long: int = 0
    unbalanced: int = 0
    duplicate: int = 0

    def __str__(self) -> str:
        counts = asdict(self)
        read, kept = counts.pop("num_read"), counts.pop("num_kept")
        why = [f"{count:,} {reason.replace('_', ' ')}" for reason, count in counts.items() if count]
        return f"kept {kept:,} of {read:,} pairs" + (f"; left out: {', '.join(why)}" if why else "")

    @classmethod
    def total(cls, reports: Iterable[FilterReport]) -> FilterReport:
        """The counts of several corpora together."""
        return cls(*(sum(counts) for counts in zip(*map(astuple, reports), strict=True)))


class PairFilter:
    """Sifts the pairs of corpora, one after the other; a duplicate may be that of a pair of an earlier corpus."""

    def __init__(self, config: FiltersConfig) -> None:
        self._config = config
        self._counts: Counter[str] = Counter()
        self._seen: set[bytes] = set()

    def filter(self, pairs: Iterable[EncodedPair]) -> Iterator[EncodedPair]:
        """The pairs of a corpus that are worth keeping, in their order; `report` counts anew."""
        self._counts.clear()
        for pair in pairs:
            reason = self._config.rejection_reason(pair) or self._repetition(pair)
            self._counts["num_read"] += 1
            self._counts[reason or "num_kept"] += 1
            if reason is None:
                yield pair

    def _repetition(self, pair: EncodedPair) -> Reason | None:
        if not self._config.drop_duplicates:
            return None
        # A digest a pair rather than its text: millions of pairs fit in memory. BLAKE2, as it can be this short.
        digest = hashlib.blake2b("\n".join(pair.text).encode(), digest_size=16).digest()
        if digest in self._seen:
            return "duplicate"
        self._seen.add(digest)
        return None

    @property
    def report(self) -> FilterReport:
        """The counts of the last corpus."""
        return FilterReport(**{"num_read": 0, "num_kept": 0, **self._counts})
