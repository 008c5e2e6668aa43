"""Memory-mapped pairs of id sequences: as large as the disk, there at once, shared by processes."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seq2attn.errors import RunError
from seq2attn.io.files import atomic_dir, read_object, write_json

TokenIds: TypeAlias = NDArray[np.uint16] | NDArray[np.int32]
IDS, OFFSETS, HEADER = "ids.npy", "offsets.npy", "header.json"
WORD_IDS_DIR, ALIGNMENTS_DIR = "word_ids", "alignments"
CORPUS_HINT = "remove the folder `data` of the run, and prepare the data again"


class CorpusBuilder:
    """A corpus in the making, in memory; every number is below `size`."""

    def __init__(self, size: int) -> None:
        self._ids, self._offsets = array("H" if size <= 2**16 else "i"), array("q", [0])

    def add(self, pair: tuple[Sequence[int], Sequence[int]]) -> None:
        """One pair more."""
        for sequence in pair:
            self._ids.extend(sequence)
            self._offsets.append(len(self._ids))

    def build(self, guide: CorpusAlignments | None = None) -> Corpus:
        """What has grown."""
        return Corpus(np.asarray(self._ids), np.asarray(self._offsets), guide)


@dataclass(frozen=True)
class CorpusAlignments:
    """Which words of each pair belong together, and of which word each token is: numbers in place of ids."""

    word_ids: Corpus  # words[i]: the word of each source token, and of each target token
    links: Corpus  # links[i]: the source word of each link, and its target word


@dataclass(frozen=True)
class Corpus:
    """Pairs of id sequences without BOS and EOS; `corpus[i]` is pair i, (source ids, target ids)."""

    ids: TokenIds  # [tokens]        source 0, target 0, source 1, target 1 ...
    offsets: NDArray[np.int64]  # [2 pairs + 1]   sequence k is ids[offsets[k] : offsets[k + 1]]
    alignments: CorpusAlignments | None = None

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[Sequence[int], Sequence[int]]], size: int) -> Corpus:
        """A corpus in memory; every id is below `size`."""
        growing = CorpusBuilder(size)
        for pair in pairs:
            growing.add(pair)
        return growing.build()

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each side, [pairs, 2]."""
        return np.diff(self.offsets).reshape(-1, 2)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the ids and offsets, as hex."""
        digest = hashlib.sha256(np.ascontiguousarray(self.offsets).data)
        digest.update(np.ascontiguousarray(self.ids).data)
        return digest.hexdigest()

    def __len__(self) -> int:
        return (len(self.offsets) - 1) // 2

    def __getitem__(self, index: int) -> tuple[TokenIds, TokenIds]:
        if not 0 <= index < len(self):
            raise IndexError(f"pair {index} of a corpus of {len(self)}")
        start, middle, end = self.offsets[2 * index : 2 * index + 3]
        return self.ids[start:middle], self.ids[middle:end]

    def save(self, folder: Path) -> None:
        """Write the corpus, whole or not at all, in place of what `folder` held."""
        tokens = self.lengths.sum(axis=0)
        counts = {"pairs": len(self), "source_tokens": int(tokens[0]), "target_tokens": int(tokens[1])}
        with atomic_dir(folder) as partial:
            np.save(partial / IDS, self.ids)
            np.save(partial / OFFSETS, self.offsets)
            write_json(partial / HEADER, {**counts, "hash": self.hash})
            if self.alignments is not None:
                self.alignments.word_ids.save(partial / WORD_IDS_DIR)
                self.alignments.links.save(partial / ALIGNMENTS_DIR)

    @classmethod
    def load(cls, folder: Path) -> Corpus:
        """Map what `save` wrote; ids are read from disk when they are asked for.

        Raises: RunError when a file is missing or the files do not fit together.
        """
        header = read_object(folder / HEADER, CORPUS_HINT)
        try:
            ids = np.load(folder / IDS, mmap_mode="r", allow_pickle=False)
            offsets = np.load(folder / OFFSETS, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise RunError(f"{folder}: the prepared ids cannot be read ({error}); {CORPUS_HINT}") from None
        is_guided = (folder / ALIGNMENTS_DIR).is_dir()
        guide = (
            CorpusAlignments(cls.load(folder / WORD_IDS_DIR), cls.load(folder / ALIGNMENTS_DIR)) if is_guided else None
        )
        if not _are_sequences(ids, offsets):
            raise RunError(f"{folder}: the prepared ids are no pairs of sequences; {CORPUS_HINT}")
        corpus = cls(ids, offsets, guide)
        if corpus.hash != header.get("hash"):
            raise RunError(
                f"{folder}: the prepared ids are not those that were saved (the hash differs); {CORPUS_HINT}"
            )
        return corpus


def _are_sequences(ids: NDArray[Any], offsets: NDArray[Any]) -> bool:
    """Whether arrays from a file are what a corpus is made of."""
    if ids.ndim != 1 or offsets.ndim != 1 or ids.dtype not in (np.uint16, np.int32) or offsets.dtype != np.int64:
        return False
    is_whole = len(offsets) % 2 == 1 and offsets[0] == 0 and offsets[-1] == len(ids)
    return bool(is_whole and (np.diff(offsets) >= 0).all() and (len(ids) == 0 or ids.min() >= 0))
