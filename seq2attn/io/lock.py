"""Locks of folders: one process at a time works in a run directory or a sweep."""

import errno
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import lock_descriptor

from seq2attn.errors import RunError

LOCK_FILE = "run.lock"
UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Errors of file systems without locks, on which nothing is locked."""
LOCK_HINT = "give another `run_dir` (``overrides=run_dir=DIR``)"
_held: dict[Path, int] = {}
"""The lock files of this process, and their open descriptors."""


@contextmanager
def lock_directory(
    folder: Path, name: str = LOCK_FILE, *, advice: str = LOCK_HINT, timeout: float = 0.0
) -> Iterator[int]:
    """A lock on `folder`, which is created if need be: the descriptor of its file `name`, which names the holder.

    Waits at most `timeout` seconds for another holder. The lock is released when the last process with the descriptor
    ends.

    Raises RunError when another process holds the lock, or when the folder is not writable.
    """
    path = (folder / name).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise RunError(f"{folder}: cannot be written to ({error.strerror}); {advice}") from None
    try:
        if not lock(descriptor, timeout):
            holder = os.pread(descriptor, 1000, 0).decode("utf-8", "replace").strip() or "another process"
            raise RunError(f"{folder}: is in use by {holder}; wait until it ends, stop it, or {advice}")
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        try:
            hold_lock(path, descriptor)
            yield descriptor
        finally:
            del _held[path]
    finally:
        os.close(descriptor)


def hold_lock(path: Path, descriptor: int) -> None:
    """Let this process write below the folder of a lock file only while `descriptor` is of the file at its path.

    Raises RunError when it is not, as for a file that was removed before it was locked.
    """
    _held[path.absolute()] = descriptor
    check_locks(path)


def check_locks(path: Path) -> None:
    """Check that the locked folders that `path` is in are still those that were locked, before it is written.

    Raises RunError when one was removed or replaced: its files are those of another process now.
    """
    for file, descriptor in [*_held.items()]:
        if not path.absolute().is_relative_to(file.parent):
            continue
        with suppress(OSError):  # there is no such file
            if os.path.samestat(os.fstat(descriptor), os.lstat(file)):
                continue
        raise RunError(
            f"{file.parent}: was removed or replaced while this process used it; the process ends, and writes nothing"
            " more there"
        )


def lock(descriptor: int, timeout: float = 0.0) -> bool:
    """Lock an open file, with at most `timeout` seconds of waiting; False if another process has locked it."""
    deadline = time.monotonic() + timeout
    try:
        while not lock_descriptor(descriptor, blocking=False):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
    return True
