"""NumPy's files: arrays that are mapped into memory, and archives of arrays."""

from __future__ import annotations

import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seq2attn.errors import RunError
from seq2attn.io.files import open_regular

MAX_ARRAYS = 2**15
"""Maximum number of tensors in a file: a model of 1,000 layers has half of them."""


def load_array(path: Path, fix: str) -> NDArray[Any]:
    """A memory-mapped array. Raises RunError when the file is missing or corrupt."""
    try:
        open_regular(path).close()
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise RunError(f"{path}: cannot be read ({error}); {fix}") from None
    return array


def read_archive(data: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of an uncompressed `.npz` file.

    Raises ValueError, or BadZipFile, for another file, and for arrays that are together larger than the file.
    """
    if data.count(b"PK\x01\x02") > MAX_ARRAYS:
        raise ValueError(f"it has more than {MAX_ARRAYS:,} arrays")
    with zipfile.ZipFile(BytesIO(data)) as archive:
        entries = archive.infolist()
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise ValueError("it is compressed, as Marian's files are not")
    if sum(entry.file_size for entry in entries) > len(data):
        raise ValueError("its arrays overlap")
    with np.load(BytesIO(data), allow_pickle=False) as arrays:
        return dict(arrays)
