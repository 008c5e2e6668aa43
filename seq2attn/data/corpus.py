"""Prepared pairs on disk: memory-mapped token ids, shared by processes, and beside them the text."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seq2attn.errors import RunError
from seq2attn.io.files import atomic_dir, atomic_path, open_regular, parse_json, read_object, write_json
from seq2attn.io.text_lines import read_lines

TokenIds: TypeAlias = NDArray[np.uint16] | NDArray[np.int32]
TextPair: TypeAlias = tuple[str, str]
Sentences: TypeAlias = tuple[NDArray[np.integer[Any]], NDArray[np.int64]]
"""Tokens of sentences one after the other [M], and the length of each [B]."""
IDS, OFFSETS, HEADER = "ids.npy", "offsets.npy", "header.json"
WORD_IDS_DIR, ALIGNMENTS_DIR = "word_ids", "alignments"
CORPUS_HINT = "remove the folder `data` of the run, and prepare the data again"


class CorpusBuilder:
    """Builder of a corpus in memory; all numbers must be below `size`, by default as large as its integers allow."""

    def __init__(self, size: int = 2**31) -> None:
        self._ids, self._offsets = array("H" if size <= 2**16 else "i"), array("q", [0])

    def add(self, pair: tuple[Sequence[int], Sequence[int]]) -> None:
        """Append a pair."""
        for sequence in pair:
            self._ids.extend(sequence)
            self._offsets.append(len(self._ids))

    def build(self, alignments: CorpusAlignments | None = None) -> Corpus:
        """The corpus of the pairs so far."""
        return Corpus(np.asarray(self._ids), np.asarray(self._offsets), alignments)


@dataclass(frozen=True)
class CorpusAlignments:
    """Word alignments of all pairs: two corpora of word indices in place of token ids."""

    word_ids: Corpus  # word_ids[i]: the word of each source token, and of each target token
    links: Corpus  # links[i]: the source word of each link, and its target word


@dataclass(frozen=True)
class Corpus:
    """Pairs of id sequences without BOS and EOS; `corpus[i]` is pair i, (source ids, target ids)."""

    ids: TokenIds  # [tokens]        source 0, target 0, source 1, target 1 ...
    offsets: NDArray[np.int64]  # [2 pairs + 1]   sequence k is ids[offsets[k] : offsets[k + 1]]
    alignments: CorpusAlignments | None = None

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[Sequence[int], Sequence[int]]], size: int) -> Corpus:
        """A corpus in memory; all ids must be below `size`."""
        builder = CorpusBuilder(size)
        for pair in pairs:
            builder.add(pair)
        return builder.build()

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

    def select(self, rows: NDArray[np.int64]) -> tuple[Sentences, Sentences]:
        """The source and target sentences of the pairs at `rows`, each read at once."""
        source, target = ((self.offsets[2 * rows + side], self.lengths[rows, side]) for side in (0, 1))
        return self._gather(*source), self._gather(*target)

    def _gather(self, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Sentences:
        ends = lengths.cumsum()
        index = np.repeat(starts - ends + lengths, lengths) + np.arange(ends[-1])
        return np.asarray(self.ids)[index], lengths

    def save(self, folder: Path) -> None:
        """Write the corpus atomically, replacing `folder`."""
        source_tokens, target_tokens = self.lengths.sum(axis=0).tolist()
        counts = {"pairs": len(self), "source_tokens": source_tokens, "target_tokens": target_tokens}
        with atomic_dir(folder) as partial:
            np.save(partial / IDS, self.ids)
            np.save(partial / OFFSETS, self.offsets)
            write_json(partial / HEADER, {**counts, "hash": self.hash})
            if self.alignments is not None:
                self.alignments.word_ids.save(partial / WORD_IDS_DIR)
                self.alignments.links.save(partial / ALIGNMENTS_DIR)

    @classmethod
    def load(cls, folder: Path) -> Corpus:
        """Memory-map a corpus written by `save`.

        Raises RunError when a file is missing or the files do not belong together.
        """
        header = read_object(folder / HEADER, CORPUS_HINT)
        ids, offsets = (load_array(folder / name) for name in (IDS, OFFSETS))
        alignments = None
        if (folder / ALIGNMENTS_DIR).is_dir():
            alignments = CorpusAlignments(cls.load(folder / WORD_IDS_DIR), cls.load(folder / ALIGNMENTS_DIR))
        if not _are_valid(ids, offsets):
            raise RunError(f"{folder}: the prepared ids are not pairs of sequences; {CORPUS_HINT}")
        corpus = cls(ids, offsets, alignments)
        if corpus.hash != header.get("hash"):
            raise RunError(
                f"{folder}: the prepared ids are not those that were saved (the hash differs); {CORPUS_HINT}"
            )
        return corpus


def load_array(path: Path) -> NDArray[Any]:
    """A memory-mapped array. Raises RunError when the file is missing or corrupt."""
    try:
        open_regular(path).close()
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise RunError(f"{path}: cannot be read ({error}); {CORPUS_HINT}") from None
    return array


def _are_valid(ids: NDArray[Any], offsets: NDArray[Any]) -> bool:
    """True for arrays with the types, shapes and order of a corpus."""
    if ids.ndim != 1 or offsets.ndim != 1 or ids.dtype not in (np.uint16, np.int32) or offsets.dtype != np.int64:
        return False
    is_complete = len(offsets) % 2 == 1 and offsets[0] == 0 and offsets[-1] == len(ids)
    return bool(is_complete and (np.diff(offsets) >= 0).all() and (len(ids) == 0 or ids.min() >= 0))


@contextmanager
def text_pair_writer(path: Path) -> Iterator[Callable[[TextPair], None]]:
    """A function that writes a pair as a JSON array on a line, as text may hold any character. The file is atomic."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as partial, partial.open("w", encoding="utf-8", newline="\n") as stream:
        yield lambda pair: print(json.dumps(pair, ensure_ascii=False), file=stream)


def read_text_pairs(path: Path) -> Iterator[TextPair]:
    """The pairs that `text_pair_writer` wrote to `path`. Raises RunError when the file is missing or corrupt."""
    hint = f"remove the folder {path.parent} and prepare the data again"
    if not path.is_file():
        raise RunError(f"{path}: is missing; {hint}")
    for number, line in enumerate(read_lines(path), start=1):
        pair = parse_json(line, path, hint)
        if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(text, str) for text in pair)):
            raise RunError(f"{path}:{number}: is not a pair of texts; {hint}")
        yield pair[0], pair[1]
