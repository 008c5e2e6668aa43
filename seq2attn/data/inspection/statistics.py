"""Statistics of the pairs of a corpus, and hashes of training pairs, by which they are found in test sets."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, replace
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from seq2attn.data.filter import EncodedPair
from seq2attn.errors import RunError
from seq2attn.io.files import atomic_path
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.normalize import NormalizeConfig, collapse_whitespace, normalize
from seq2attn.tokenizers.vocabulary import UNK

Hashes: TypeAlias = NDArray[np.uint64]
"""A hash of each pair, [pairs]."""
HASHES_FILE = "data/hashes.npy"
CHUNK = 1000
"""Number of pairs that are counted at a time."""
MIN_MARKS, MIN_CAPITALS = 5, 10
"""Minimum number of full stops and commas, and of expected capitals, in a comparison."""
_DETACHED = re.compile(r"(?<!\S)[.,。，、．؟،](?!\S)")
_ATTACHED = re.compile(r"(?<=\S)(?:[.,](?!\S)|[。，、．؟،])")


@dataclass(frozen=True)
class TextStyle:
    """Counts of capitals among cased letters, and of full stops and commas after a space among all."""

    num_upper: int = 0
    num_cased: int = 0  # 0 if the tokenizer ignores case
    num_detached: int = 0
    num_marks: int = 0

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> TextStyle:
        """The counts of a text."""
        text = "\n".join(lines)
        upper, detached = sum(map(str.isupper, text)), len(_DETACHED.findall(text))
        return cls(upper, upper + sum(map(str.islower, text)), detached, detached + len(_ATTACHED.findall(text)))

    def __add__(self, other: TextStyle) -> TextStyle:
        return TextStyle(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    def differences(self, training: TextStyle) -> Iterator[str]:
        """Descriptions of differences from the training text that lower the quality; none for small counts."""
        styles = self, training
        share, training_share = (style.num_detached / max(style.num_marks, 1) for style in styles)
        if abs(share - training_share) > 0.5 and min(style.num_marks for style in styles) >= MIN_MARKS:
            shares = f"{share:.0%} of its full stops and commas stand alone, {training_share:.0%} in training"
            yield f"is tokenized differently from the training text: {shares}"
        share, training_share = (style.num_upper / max(style.num_cased, 1) for style in styles)
        higher, num_cased = max(share, training_share), min(style.num_cased for style in styles)
        if min(share, training_share) < higher / 10 and higher * num_cased >= MIN_CAPITALS:
            shares = f"{share:.1%} of its letters are capitals, {training_share:.1%} in training"
            yield f"is cased differently from the training text: {shares}"


@dataclass(frozen=True)
class SideStatistics:
    """Statistics of all source or target lines; lengths are in tokens, 0 for an empty corpus."""

    num_tokens: int
    num_unknown: int  # of these
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

    def __init__(self, *tokenizers: Tokenizer) -> None:
        self._tokenizers = tokenizers
        self._hashes = [hash_pairs([])]
        self._lengths, self._num_unknown, self._styles = (array("i"), array("i")), [0, 0], [TextStyle(), TextStyle()]

    def inspect(self, pairs: Iterable[EncodedPair]) -> Iterator[EncodedPair]:
        """The same pairs, counted."""
        pairs = iter(pairs)
        while chunk := list(islice(pairs, CHUNK)):
            self._hashes.append(hash_pairs(pair.text for pair in chunk))
            for side, lengths in enumerate(self._lengths):
                lengths.extend(len(pair.ids[side]) for pair in chunk)
                self._num_unknown[side] += sum(pair.ids[side].count(UNK) for pair in chunk)
                self._styles[side] += TextStyle.from_lines(pair.text[side] for pair in chunk)
            yield from chunk

    @property
    def hashes(self) -> Hashes:
        """The hashes of all pairs."""
        return np.concatenate(self._hashes)

    def report(self, train: Hashes | None = None) -> CorpusReport:
        """The statistics. `train` are the hashes of the training pairs, for a dev or test set."""
        source_is_empty, target_is_empty = (np.array(lengths) == 0 for lengths in self._lengths)
        hashes = self.hashes
        return CorpusReport(
            num_pairs=len(hashes),
            source=self._statistics(0),
            target=self._statistics(1),
            num_empty=int((source_is_empty & target_is_empty).sum()),
            num_one_sided=int((source_is_empty ^ target_is_empty).sum()),
            num_duplicates=len(hashes) - len(np.unique(hashes)),
            num_in_train=None if train is None else int(np.isin(hashes, train).sum()),
        )

    def _statistics(self, side: int) -> SideStatistics:
        lengths, style = np.array(self._lengths[side] or [0]), self._styles[side]
        median, p95, p99 = np.percentile(lengths, (50, 95, 99)).tolist()
        return SideStatistics(
            num_tokens=int(lengths.sum()),
            num_unknown=self._num_unknown[side],
            median_length=median,
            p95_length=p95,
            p99_length=p99,
            max_length=int(lengths.max()),
            max_length_line=int(lengths.argmax()) + bool(self._lengths[side]),
            style=replace(style, num_upper=0, num_cased=0) if ignores_case(self._tokenizers[side]) else style,
        )


def ignores_case(tokenizer: Tokenizer) -> bool:
    """True for a tokenizer that lower-cases all text, such as that of an uncased BERT."""
    if isinstance(tokenizer.config, NormalizeConfig):
        return tokenizer.config.lowercase
    return tokenizer.encode("A") == tokenizer.encode("a")


def inspect_pairs(
    pairs: Iterable[tuple[str, str]], source: Tokenizer, target: Tokenizer, train: Hashes | None = None
) -> CorpusReport:
    """Statistics of a dev or test set. `train` are the hashes of the training pairs."""
    inspector = CorpusInspector(source, target)
    for _ in inspector.inspect(EncodedPair(pair, (source.encode(pair[0]), target.encode(pair[1]))) for pair in pairs):
        pass
    return inspector.report(train)


def hash_pairs(pairs: Iterable[tuple[str, str]]) -> Hashes:
    """A hash of each pair in NFC, with single spaces and without its tag."""
    texts = ("\n".join(map(_normalize, pair)) for pair in pairs)
    digests = [blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest() for text in texts]
    return np.frombuffer(b"".join(digests), dtype="<u8")


def _normalize(line: str) -> str:
    return re.sub(r"^<[^\s<>]+> ", "", collapse_whitespace(normalize("NFC", line)))


def save_hashes(hashes: Hashes, run: Path) -> None:
    """Write the hashes to a run directory."""
    with atomic_path(run / HASHES_FILE) as partial, partial.open("wb") as file:
        np.save(file, hashes)


def load_hashes(run: Path) -> Hashes | None:
    """The hashes of a run's training pairs; None if they are missing. Raises RunError for a corrupt file."""
    path = run / HASHES_FILE
    if not path.is_file():
        return None
    try:
        hashes = np.load(path, allow_pickle=False)
        if hashes.dtype != np.dtype("<u8") or hashes.ndim != 1:
            raise ValueError("it does not hold hashes of pairs")
    except (OSError, ValueError, EOFError) as error:
        raise RunError(f"{path}: cannot be read ({error}); remove its folder, and prepare the data again") from None
    return np.asarray(hashes)
