"""Filters for training pairs."""

import hashlib
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveInt

from seq2attn.config.base import Config
from seq2attn.data.word_alignment import WordAlignment
from seq2attn.io.terminal import plural
from seq2attn.tokenizers.normalize import collapse_whitespace, normalize

MAX_TOKENS, MAX_CHARACTERS = 256, 1024
"""Default maximum length of a side in tokens, and where these are characters."""
RejectionReason = Literal["empty", "too_long", "unbalanced", "duplicate"]


@dataclass(frozen=True)
class EncodedPair:
    """A pair as text and as ids without BOS and EOS, and its word alignment if known."""

    text: tuple[str, str]
    ids: tuple[list[int], list[int]]
    alignment: WordAlignment | None = None

    @cached_property
    def hash(self) -> int:
        """A hash of the text in NFC, with single spaces and without its tag."""
        lines = (collapse_whitespace(normalize("NFC", line)) for line in self.text)
        text = "\n".join(re.sub(r"^<[^\s<>]+> ", "", line) for line in lines)
        return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


T = TypeVar("T", bound=EncodedPair)


class FiltersConfig(Config):
    """Filters for training pairs; pairs with an empty side are always left out."""

    max_length: PositiveInt | tuple[PositiveInt, PositiveInt] = MAX_TOKENS
    """Maximum tokens of either side, or of source and target: `[256, 1024]`. Default: 1024 for a side of
    `characters`."""
    max_length_ratio: Annotated[float, Field(ge=1)] | None = None
    """Maximum ratio of the tokens of the longer side to those of the shorter; none: no limit."""
    drop_duplicates: bool = False
    """Leave out pairs with exactly the same text as an earlier pair."""

    @property
    def max_lengths(self) -> tuple[int, int]:
        """Maximum tokens of source and target."""
        return self.max_length if isinstance(self.max_length, tuple) else (self.max_length, self.max_length)

    def describe_long(self, lengths: NDArray[np.int64], source: Path) -> str:
        """The number of pairs that are too long, and the longest of them; empty if there is none.

        `lengths` [pairs, 2] are those of the lines of `source`, and of their translations.
        """
        is_long = (lengths > self.max_lengths).any(axis=1)
        if not is_long.any():
            return ""
        row = np.where(is_long, lengths.max(axis=1), 0).argmax()
        sizes = f"{lengths[row, 0]:,} source and {lengths[row, 1]:,} target tokens"
        count = f"{plural(is_long.sum(), 'pair')} with more tokens than `data.filters.max_length`"
        return f"{count}, the longest at {source}:{row + 1}, {sizes}"

    def rejection_reason(self, pair: EncodedPair) -> RejectionReason | None:
        """The reason to leave out a pair, apart from duplicates."""
        shorter, longer = sorted(map(len, pair.ids))
        if shorter == 0:
            return "empty"
        if any(len(ids) > most for ids, most in zip(pair.ids, self.max_lengths, strict=True)):
            return "too_long"
        if self.max_length_ratio is not None and longer > self.max_length_ratio * shorter:
            return "unbalanced"
        return None


@dataclass(frozen=True)
class FilterReport:
    """Numbers of pairs read, kept, and left out by reason."""

    num_read: NonNegativeInt
    num_kept: NonNegativeInt
    empty: int = 0
    too_long: int = 0
    unbalanced: int = 0
    duplicate: int = 0

    def __str__(self) -> str:
        counts = asdict(self)
        num_read, num_kept = counts.pop("num_read"), counts.pop("num_kept")
        reasons = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in counts.items() if count)
        return f"kept {num_kept:,} of {plural(num_read, 'pair')}" + (f"; left out: {reasons}" if reasons else "")


class PairFilter:
    """Filter for the pairs of several corpora; a pair may be a duplicate of one in an earlier corpus."""

    def __init__(self, config: FiltersConfig) -> None:
        self._config = config
        self._counts: Counter[str] = Counter()
        self._digests: set[bytes] = set()
        self._kept = array("Q")

    def filter(self, pairs: Iterable[T]) -> Iterator[T]:
        """The pairs of a corpus that are kept, in their order; resets the counts of `report`."""
        self._counts.clear()
        for pair in pairs:
            reason = self._config.rejection_reason(pair) or self._check_duplicate(pair)
            self._counts["num_read"] += 1
            self._counts[reason or "num_kept"] += 1
            if reason is None:
                self._kept.append(pair.hash)
                yield pair

    def _check_duplicate(self, pair: EncodedPair) -> RejectionReason | None:
        if not self._config.drop_duplicates:
            return None
        # A digest instead of the text, so that millions of pairs fit in memory; BLAKE2 can be this short.
        digest = hashlib.blake2b(repr(pair.text).encode(), digest_size=16).digest()
        if digest in self._digests:
            return "duplicate"
        self._digests.add(digest)
        return None

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """The hashes of the pairs of all corpora that are kept, [pairs]."""
        return np.array(self._kept, np.uint64)

    @property
    def report(self) -> FilterReport:
        """The counts of the last corpus."""
        return FilterReport(**{"num_read": 0, "num_kept": 0, **self._counts})
