"""Locks of folders: one process at a time works in a run directory, or in that of a sweep."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import lock_descriptor

from seq2attn.errors import RunError

LOCK_FILE = "run.lock"
UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Errors of file systems without locks; nothing is locked there."""
LOCK_HINT = "give another `run_dir` (--set run_dir=DIR)"


@contextmanager
def lock_directory(
    folder: Path, name: str = LOCK_FILE, *, advice: str = LOCK_HINT, patience: float = 0.0
) -> Iterator[int]:
    """A lock on `folder`, which is made if need be: the descriptor of the file `name` in it, which says who holds it.

    Another holder is waited for `patience` seconds. The lock ends with the last process that has the descriptor,
    however it ends.

    Raises: RunError when another process holds the lock, or when nothing can be written to the folder.
    """
    path = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # On Windows there is no such flag.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
    except OSError as error:
        raise RunError(f"{folder}: cannot be written to ({error.strerror}); {advice}") from None
    try:
        if not _locks(descriptor, time.monotonic() + patience):
            raise RunError(f"{folder}: {_holder(path)} is at work in it; wait for its end, stop it, or {advice}")
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        yield descriptor
    finally:
        os.close(descriptor)


def _locks(descriptor: int, deadline: float) -> bool:
    try:
        while not lock_descriptor(descriptor, blocking=False):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
    return True


def _holder(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip() or "another process"
    except OSError:  # Windows lets nobody read a file that is locked
        return "another process"
