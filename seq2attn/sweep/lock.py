"""One sweep at a time in a folder."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seq2attn.errors import RunError

PATIENCE = 5.0
"""Seconds in which the trainings of a sweep that was killed have surely seen that it is gone."""


@contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Keep other sweeps out of `folder`; the file descriptor that does it, for processes that work in it as well.

    The lock ends with the last process that holds it, however it ends. Raises RunError when another does.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "sweep.lock").open("w") as file:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise RunError(
                        f"{folder}: another sweep is at work in it; wait for its end, or give another `folder`"
                    ) from None
                time.sleep(0.1)
        yield file.fileno()
