"""Which sources and pairs a model has learnt from, by numbers in place of text: eight bytes a line.

Two lines are the same if they are so in NFC and with single spaces. The numbers are the same in every process.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from seq2attn.errors import RunError
from seq2attn.text.files import create, sync_file
from seq2attn.text.normalize import one_line

Numbers = NDArray[np.uint64]
_SPACES = ("  ", "\n ", " \n", *(c for c in map(chr, range(0x3001)) if c.isspace() and c not in " \n"))
"""What a line with single spaces has not, between its neighbours."""
SIDES = ("sources", "pairs")
ODD = np.uint64(0x9E3779B97F4A7C15)
FIX = "remove the folder it is in, and prepare the data again"


def line_numbers(lines: Sequence[str]) -> Numbers:
    """A number for each line; different lines have different ones, but for one in some 10^19 pairs of lines."""
    digests = [
        blake2b(line.encode("utf-8", "surrogatepass"), digest_size=8).digest() for line in _plain(lines)
    ]
    return np.frombuffer(b"".join(digests), dtype="<u8")


def pair_numbers(sources: Numbers, targets: Numbers) -> Numbers:
    """A number for each pair, from those of its sides; which is which counts."""
    return (sources * ODD) ^ (targets >> np.uint64(1)) ^ (targets << np.uint64(63))


def _plain(lines: Sequence[str]) -> Sequence[str]:
    """The lines in NFC, with single spaces; those that are so already, as most are, are known all at once."""
    text = "\n" + "\n".join(lines) + "\n"
    is_spaced = text.count("\n") == len(lines) + 1 and not any(map(text.__contains__, _SPACES))
    if is_spaced and unicodedata.is_normalized("NFC", text):
        return lines
    return [one_line(unicodedata.normalize("NFC", line)) for line in lines]


@dataclass(frozen=True)
class Seen:
    """The sources and the pairs of a corpus, each once."""

    sources: Numbers  # ascending
    pairs: Numbers  # ascending

    @classmethod
    def of(cls, sources: Numbers, targets: Numbers) -> Self:
        """Of the numbers of lines, side by side."""
        return cls(np.unique(sources), np.unique(pair_numbers(sources, targets)))

    def overlap(self, sources: Numbers, targets: Numbers) -> tuple[int, int]:
        """How many of some sources, and of the pairs with their targets, are among these."""
        pairs = pair_numbers(sources, targets)
        return _known(self.sources, sources), _known(self.pairs, pairs)

    def save(self, folder: Path) -> None:
        """Write what `open` reads."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in SIDES:
            partial = folder / f"{name}.npy.partial"
            with create(partial) as file:
                np.save(file, getattr(self, name))
            sync_file(partial)
            partial.replace(folder / f"{name}.npy")

    @classmethod
    def open(cls, folder: Path) -> Self | None:
        """What `save` wrote, read from disk where it is asked for; None where nothing was written.

        Raises: RunError for files that cannot be read.
        """
        files = [folder / f"{name}.npy" for name in SIDES]
        if not all(file.is_file() for file in files):
            return None
        try:
            found = [np.load(file, mmap_mode="r", allow_pickle=False) for file in files]
        except (OSError, ValueError, EOFError) as error:
            raise RunError(f"{folder}: what was learnt from cannot be read ({error}); {FIX}") from None
        if any(part.dtype != np.dtype("<u8") or part.ndim != 1 for part in found):
            raise RunError(f"{folder}: does not hold the numbers of lines; {FIX}")
        return cls(*found)


def _known(known: Numbers, asked: Numbers) -> int:
    """How many of those asked for are among the known, which ascend."""
    if not len(known):
        return 0
    places = known.searchsorted(asked).clip(max=len(known) - 1)
    return int(np.count_nonzero(known[places] == asked))
