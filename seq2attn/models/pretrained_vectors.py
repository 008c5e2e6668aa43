"""Pretrained word vectors (GloVe, fastText) as initial embeddings."""

import gzip
import math
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from seq2attn.errors import DataError


@dataclass(frozen=True, eq=False)
class VectorCoverage:
    """Tokens of a vocabulary with a pretrained vector; prints as a line."""

    is_covered: Tensor  # [tokens] bool
    examples_missing: tuple[str, ...]  # the first few, in the order of the vocabulary

    def __str__(self) -> str:
        count, size = int(self.is_covered.sum()), len(self.is_covered)
        missing = f"; none for {', '.join(self.examples_missing)}" if self.examples_missing else ""
        return f"pretrained vectors for {count} of {size} tokens ({count / max(size, 1):.1%}){missing}"


def load_vectors(path: Path, tokens: Sequence[str], dim: int) -> tuple[Tensor, VectorCoverage]:
    """An embedding table [tokens, dim] from the vectors in `path`, with zeros for missing tokens.

    A missing token has the vector of its lower-case form, if there is one. Raises DataError if `path` is missing,
    malformed, or has vectors of another size.
    """
    _check(path, dim, lines=2)  # the usual mistake, found before gigabytes are read
    words, vectors = _read(path, dim)
    rows = [words.get(token, words.get(token.lower(), -1)) for token in tokens]
    index = torch.tensor(rows, dtype=torch.long)
    mask = index >= 0
    table = torch.zeros(len(tokens), dim)
    table[mask] = vectors[index[mask]]
    if not table.isfinite().all():
        _check(path, dim)
        raise DataError(f"{path}: has numbers too large for 32 bits")
    missing = islice((token for token, row in zip(tokens, rows, strict=True) if row < 0), 5)
    return table, VectorCoverage(mask, tuple(missing))


def _read(path: Path, dim: int) -> tuple[dict[str, int], Tensor]:
    """The row of each word, and the rows [words, dim]."""
    from torchtext.vocab import Vectors

    # torchtext pickles vectors into its cache, and unpickles any file there: it gets an empty directory.
    with TemporaryDirectory() as cache, _verified_https():
        try:
            vectors = Vectors(name=str(path), cache=cache)
        except Exception as error:  # a malformed line is a RuntimeError, TypeError or ValueError that names no line
            _check(path, dim)
            raise DataError(f"{path}: cannot be read as word vectors: {error}") from error
    return vectors.stoi, vectors.vectors


@contextmanager
def _verified_https() -> Iterator[None]:
    """Certificates stay checked: torchtext 0.6 turns the checks off for the whole process."""
    verified = ssl._create_default_https_context
    try:
        yield
    finally:
        ssl._create_default_https_context = verified


def _check(path: Path, dim: int, lines: int | None = None) -> None:
    """Raises DataError, with its place, if one of the first `lines` lines is not a vector of size `dim`."""
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            for number, line in enumerate(islice(file, lines), start=1):
                _, *numbers = line.rstrip().split(b" ")
                if len(numbers) == 1:
                    continue  # the header of fastText: number of words and dimension
                if len(numbers) != dim:
                    raise DataError(f"{path}:{number}: expected a word and {dim} numbers, found {len(numbers)}")
                if not all(map(_is_number, numbers)):
                    raise DataError(f"{path}:{number}: expected a word and {dim} finite numbers")
    except (OSError, EOFError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error


def _is_number(text: bytes) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
