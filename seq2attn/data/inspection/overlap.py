"""Hashes of the training pairs, kept to find them in test sets: 8 bytes a pair."""

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
HASHES = "data/hashes.npy"
HINT = "remove the folder it is in, and prepare the data again"


def hash_pairs(pairs: Iterable[tuple[str, str]]) -> Hashes:
    """A hash of each pair, after NFC, with single spaces and without a tag, [pairs]"""
    texts = ("\n".join(map(_plain, pair)) for pair in pairs)
    digests = [blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest() for text in texts]
    return np.frombuffer(b"".join(digests), dtype="<u8")


def _plain(line: str) -> str:
    return re.sub(r"^<[^\s<>]+> ", "", collapse_whitespace(normalize("NFC", line)))


def save_hashes(hashes: Hashes, run: Path) -> None:
    """Write what `load_hashes` reads."""
    with atomic_path(run / HASHES) as partial, partial.open("wb") as file:
        np.save(file, hashes)


def load_hashes(run: Path) -> Hashes | None:
    """The hashes of the pairs that a run was trained on; None where they are not kept.

    Raises: RunError for a file that cannot be read.
    """
    path = run / HASHES
    if not path.is_file():
        return None
    try:
        hashes = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise RunError(f"{path}: cannot be read ({error}); {HINT}") from None
    if hashes.dtype != np.dtype("<u8") or hashes.ndim != 1:
        raise RunError(f"{path}: does not hold the hashes of pairs; {HINT}")
    return np.asarray(hashes)
