"""Simultaneous trainings, each in a separate process."""

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
"""Time from the request to end a process until it is killed."""


@dataclass(frozen=True)
class FinishedRun:
    """A training whose process has ended."""

    run: TrialRun
    exit_code: int
    seconds: float

    @property
    def failure_reason(self) -> str:
        """Exit code and last output of a training that failed."""
        log = self.run.folder / SWEEP_LOG
        status = f"exit code {self.exit_code}" if self.exit_code >= 0 else f"ended by signal {-self.exit_code}"
        lines = [line for line in log.read_text("utf-8", errors="replace").split("\n") if line.strip()]
        return f"{status}: {lines[-1] if lines else 'no output'} ({log})"


def run_all(runs: Iterable[TrialRun], jobs: int, lock: int) -> Iterator[FinishedRun]:
    """Train all, `jobs` at a time, and yield each as it ends. Closing the iterator ends the remaining processes.

    `lock` is the file descriptor that locks the sweep for as long as one of the processes lives.
    """
    waiting = deque(runs)
    active: dict[subprocess.Popen[bytes], tuple[TrialRun, float, int]] = {}  # run, start time, slot
    gpus = _visible_gpus()
    try:
        while waiting or active:
            while waiting and len(active) < jobs:
                run = waiting.popleft()
                slot = min({*range(jobs)} - {slot for *_, slot in active.values()})
                process = _start(run, jobs, lock, gpus[slot % len(gpus)] if gpus else None)
                active[process] = run, time.monotonic(), slot
            for process in [process for process in active if process.poll() is not None]:
                run, started, _ = active.pop(process)
                yield FinishedRun(run, process.returncode, time.monotonic() - started)
            time.sleep(0.05)
    finally:
        _end(list(active))


def threads(jobs: int) -> int:
    """Threads of each of `jobs` processes: OMP_NUM_THREADS if set, else an equal share of the CPU cores."""
    setting = os.environ.get("OMP_NUM_THREADS", "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(setting) if setting.isdecimal() else max(1, cores // jobs)


def _visible_gpus() -> list[str]:
    """Names of the CUDA devices of this process, in the form of CUDA_VISIBLE_DEVICES."""
    setting = os.environ.get("CUDA_VISIBLE_DEVICES")
    if setting is None:
        return [str(gpu) for gpu in range(torch.cuda.device_count())]
    return [name.strip() for name in setting.split(",") if name.strip()]


def _start(run: TrialRun, jobs: int, lock: int, gpu: str | None) -> subprocess.Popen[bytes]:
    """Start a process in a new session, without Ctrl-C, and with one GPU if there is any."""
    devices = {} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu}
    command = [sys.executable, "-m", "seq2attn.sweep.worker", str(run.folder), str(jobs)]
    with (run.folder / SWEEP_LOG).open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,  # closed when this process ends, which ends the worker
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment() | {"OMP_NUM_THREADS": str(threads(jobs)), "PYTHONUNBUFFERED": "1"} | devices,
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
