"""Weights of `pytorch_model.bin`, a pickle, read in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from seq2attn.errors import DataError
from seq2attn.io.files import open_regular
from seq2attn.io.hf_folder import INDEX_FILE, PICKLE_FILE, WEIGHTS_FILE

KEPT_VARIABLES = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "OMP_NUM_THREADS")
"""Environment variables of the process; others may be secret."""


@contextmanager
def weights_folder(folder: Path, *, allow_pickle: bool) -> Iterator[Path]:
    """The folder with the safetensors of a model: `folder`, or a temporary one with converted weights.

    Raises: DataError when the pickle cannot be converted.
    """
    if not allow_pickle or any((folder / name).is_file() for name in (WEIGHTS_FILE, INDEX_FILE)):
        yield folder
        return
    with TemporaryDirectory() as temporary:
        _convert(folder / PICKLE_FILE, Path(temporary) / WEIGHTS_FILE, temporary)
        yield Path(temporary)


def _convert(source: Path, target: Path, home: str) -> None:
    try:
        open_regular(source).close()
    except OSError as error:
        raise DataError(f"{source}: cannot be read ({error.strerror})") from None
    program = Path(__file__).with_name("convert_pickle.py")
    done = subprocess.run(
        [sys.executable, "-P", str(program), str(source.resolve()), str(target)],
        env={name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ} | {"HOME": home},
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().rpartition("\n")[2] or f"exit code {done.returncode}"
        raise DataError(f"{source}: cannot be converted to safetensors ({reason})")
