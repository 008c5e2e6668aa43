"""Trainings in processes of their own, some side by side."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from seq2attn.io.import_path import environment
from seq2attn.sweep.plan import TrialRun

SWEEP_LOG = "sweep.log"
TERMINATE_GRACE_SECONDS = 10.0
"""Seconds between asking a process to end and ending it."""


@dataclass(frozen=True)
class FinishedRun:
    """A training whose process has ended."""

    training: TrialRun
    exit_code: int
    seconds: float

    @property
    def failure_reason(self) -> str:
        """What it said last, for one that failed."""
        log = self.training.folder / SWEEP_LOG
        how = f"exit code {self.exit_code}" if self.exit_code >= 0 else f"ended by signal {-self.exit_code}"
        said = [line for line in log.read_text("utf-8", errors="replace").split("\n") if line.strip()]
        return f"{how}: {said[-1] if said else 'it said nothing'} ({log})"


def run_all(trainings: Iterable[TrialRun], jobs: int, lock: int) -> Iterator[FinishedRun]:
    """Train all, `jobs` side by side, and yield each as it ends. What still runs is ended when this is.

    `lock` is the file descriptor that keeps other sweeps out for as long as one of the processes lives.
    """
    waiting = deque(trainings)
    working: dict[subprocess.Popen[bytes], tuple[TrialRun, float, int]] = {}  # the last: which of the `jobs`
    cards = visible_cards()
    try:
        while waiting or working:
            while waiting and len(working) < jobs:
                training = waiting.popleft()
                place = min({*range(jobs)} - {place for *_, place in working.values()})
                card = cards[place % len(cards)] if cards else None
                process = _start(training, jobs, lock, card)
                working[process] = training, time.monotonic(), place
            for process in [process for process in working if process.poll() is not None]:
                training, started, _ = working.pop(process)
                yield FinishedRun(training, process.returncode, time.monotonic() - started)
            time.sleep(0.05)
    finally:
        _end(list(working))


def threads(jobs: int) -> int:
    """How many threads each of `jobs` processes has: its share of the cores, or what OMP_NUM_THREADS says."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(asked) if asked.isdecimal() else max(1, cores // jobs)


def visible_cards() -> list[str]:
    """Names of the CUDA devices that this process may use, as CUDA_VISIBLE_DEVICES has them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return [str(card) for card in range(torch.cuda.device_count())]
    return [name.strip() for name in named.split(",") if name.strip()]


def _start(training: TrialRun, jobs: int, lock: int, card: str | None) -> subprocess.Popen[bytes]:
    """Start a process that hears nothing of Ctrl-C: whether trainings end is for the sweep to say.

    It sees one `card` alone, lest all of them train on the first.
    """
    seen = {} if card is None else {"CUDA_VISIBLE_DEVICES": card}
    command = [sys.executable, "-m", "seq2attn.sweep.worker", str(training.folder), str(jobs)]
    with (training.folder / SWEEP_LOG).open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,  # closed when this process ends, which is what the other waits for
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment() | {"OMP_NUM_THREADS": str(threads(jobs)), "PYTHONUNBUFFERED": "1"} | seen,
            start_new_session=True,
            pass_fds=[lock],
        )


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + TERMINATE_GRACE_SECONDS
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
