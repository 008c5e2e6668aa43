"""Commands in separate processes, forked from one that has loaded the package, so they start fast."""

import errno
import multiprocessing
import os
import resource
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    ["seq2attn.cli", "seq2attn.training.train", "seq2attn.data.prepare", "torch._dynamo"]  # which optimizers load
)

Fault = tuple[str, int]
"""The system call that fails, and the number of its first failing call."""
SMALL = 2000
"""Maximum file size in bytes on a full disk."""


class Command:
    """`seq2attn` with arguments, running."""

    def __init__(
        self,
        *arguments: object,
        log: Path,
        fault: Fault | None = None,
        environment: Mapping[str, str] = {},
        folder: Path = Path(),
    ) -> None:
        """`folder`: the working directory."""
        self.log, given = log.absolute(), [*map(str, arguments)]
        self.process = _CONTEXT.Process(target=_run, args=(given, str(self.log), fault, environment, str(folder)))
        self.process.start()

    def send(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.process.is_alive():
            os.kill(self.process.pid, number)

    def wait(self, seconds: float = 120.0) -> int:
        """The exit code; negative for a signal."""
        self.process.join(seconds)
        if self.process.is_alive():
            self.process.kill()
            raise AssertionError(f"still running: {self.output()[-2000:]}")
        return self.process.exitcode

    def until(self, moment: Callable[[], Any], seconds: float = 120.0) -> bool:
        """Wait for a condition. Returns False if the process ended before."""
        over = time.monotonic() + seconds
        while not moment():
            if not self.process.is_alive():
                return False
            assert time.monotonic() < over
            time.sleep(0.0005)
        return True

    def finish(self) -> tuple[int, str]:
        return self.wait(), self.output()

    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.is_file() else ""


def start_two(
    *arguments: object, folder: Path, others: Sequence[object] = (), folders: Sequence[Path] = (Path(), Path())
) -> list[Command]:
    """A distributed command in two processes, with the environment that `torchrun` gives them, and logs in `folder`.

    `others`: further arguments of the second; `folders`: the working directories.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": "2"}
    return [
        Command(
            *(*arguments, *others) if rank else arguments,
            log=folder / f"{rank}.txt",
            environment=place | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            folder=folders[rank],
        )
        for rank in (0, 1)
    ]


def _run(arguments: list[str], log: str, fault: Fault | None, environment: Mapping[str, str], folder: str) -> None:
    os.environ.update(environment)
    os.chdir(folder)
    tempfile.tempdir = None  # read TMPDIR again
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import torch

    from seq2attn.cli import app

    torch.set_num_threads(1)
    if fault is not None:
        _break(*fault)
    sys.argv = ["seq2attn", *arguments]
    app(arguments, prog_name="seq2attn")


def _break(what: str, since: int) -> None:
    """Make system calls fail with EIO, or as on a full disk."""
    calls = 0

    def failing(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls >= since:
                if what != "space":
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, SMALL))
            return real(*arguments, **options)

        return call

    for name in {"fsync": ["fsync"], "rename": ["rename", "replace"], "space": ["fsync"]}[what]:
        setattr(os, name, failing(getattr(os, name)))
