"""Hashes of the training pairs, 8 bytes each, to find them in test sets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from seq2attn.errors import RunError
from seq2attn.io.files import atomic_path
from seq2attn.tokenizers.normalize import collapse_whitespace, normalize

Hashes: TypeAlias = NDArray[np.uint64]
HASHES_FILE = "data/hashes.npy"


def hash_pairs(pairs: Iterable[tuple[str, str]]) -> Hashes:
    """A hash of each pair in NFC, with single spaces and without its tag, [pairs]."""
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
