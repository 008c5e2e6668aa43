"""A measured process: output with times, memory of the process tree, and CPU use of other processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmark.setting import UnavailableError

SAMPLE = 0.25
"""Seconds between two samples of the process tree."""
QUIET = 0.12
"""Maximum number of cores that other processes use in a valid interval."""


@dataclass(frozen=True)
class Line:
    """A line of output, with its time in seconds since the start."""

    at: float
    text: str


class Process:
    """A command and its children, which can be paused so that several are measured in turn."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.lines: list[Line] = []
        self.peak = 0  # bytes
        self._others: list[tuple[float, float]] = []  # time, and CPU seconds of other processes until then
        self._log = log.open("w", encoding="utf-8")
        self.started = time.monotonic()
        self.popen = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        threading.Thread(target=self._sample, daemon=True).start()

    @property
    def age(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    @property
    def has_ended(self) -> bool:
        """True after the end of the process."""
        return self.popen.poll() is not None

    @property
    def tail(self) -> str:
        """The last lines, for error messages."""
        return "\n".join(line.text[-300:] for line in self.lines[-5:])

    def others(self, start: float, end: float) -> float:
        """Number of cores that other processes used between two times."""
        samples = [sample for sample in self._others if start <= sample[0] <= end]
        if len(samples) < 3:
            return 0.0
        return (samples[-1][1] - samples[0][1]) / (samples[-1][0] - samples[0][0])

    def pause(self) -> None:
        """Stop it and its children (SIGSTOP)."""
        os.killpg(self.popen.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue it and its children."""
        os.killpg(self.popen.pid, signal.SIGCONT)

    def wait(self, limit: float) -> int:
        """Exit status. After `limit` seconds, kills the process and raises subprocess.TimeoutExpired."""
        try:
            status = self.popen.wait(limit)
        except subprocess.TimeoutExpired:
            self.end()
            raise
        self._reader.join(5)
        return status

    def end(self) -> None:
        """Kill its process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for text in self.popen.stdout:
            self.lines.append(Line(self.age, text.rstrip("\n")))
            self._log.write(f"{self.age:9.3f} {text}")
            self._log.flush()

    def _sample(self) -> None:
        try:
            leader = psutil.Process(self.popen.pid)
            while not self.has_ended:
                memory, seconds = _usage(leader)
                now = psutil.cpu_times()
                busy = sum(now) - now.idle - getattr(now, "iowait", 0.0) - getattr(now, "guest", 0.0)
                self._others.append((self.age, busy - seconds))
                self.peak = max(self.peak, memory)
                time.sleep(SAMPLE)
        except psutil.Error:
            return


def _usage(leader: psutil.Process) -> tuple[int, float]:
    """Resident bytes and CPU seconds of a process tree."""
    memory, seconds = 0, 0.0
    for process in [leader, *leader.children(recursive=True)]:
        try:
            memory += process.memory_info().rss
            times = process.cpu_times()
        except psutil.Error:
            continue
        seconds += times.user + times.system + times.children_user + times.children_system
    return memory, seconds


def wait_until_idle(*, limit: float = 600.0) -> None:
    """Wait for two seconds of idle CPUs. Raises UnavailableError after `limit` seconds.

    The load average is not suitable: it includes our earlier processes.
    """
    end, idle = time.monotonic() + limit, 0
    while idle < 2:
        if time.monotonic() > end:
            raise UnavailableError(f"the CPUs were busy for {limit:.0f} s: end other processes, or give --busy-ok")
        idle = idle + 1 if psutil.cpu_percent(interval=1.0) < 8 else 0
