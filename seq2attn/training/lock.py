"""One process at a time works in a run directory."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seq2attn.errors import RunError

LOCK = "run.lock"
UNKNOWN = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""What a file system says that has no locks."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes out of `folder`, which is made if need be. The lock goes with the process, however it ends.

    Raises: RunError when another process is at work in it, or when nothing can be written to it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise RunError(
            f"{folder}: cannot be written to ({error.strerror}); give another `run` (--set run=DIR)"
        ) from None
    try:
        _lock(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        who = os.pread(descriptor, 200, 0).decode("utf-8", "replace").strip() or "another process"
        raise RunError(
            f"{folder}: {who} is at work in it; wait for its end, stop it, or give another `run` (--set run=DIR)"
        ) from None
    except OSError as error:
        if error.errno not in UNKNOWN:
            raise
        return
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
