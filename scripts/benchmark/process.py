"""A measured process: its lines with their times, the memory of its process tree, and what else ran meanwhile."""

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

SAMPLE = 0.25
"""Seconds between two looks at the process tree."""
QUIET = 0.12
"""Cores that others may use before an interval is thrown away."""


@dataclass(frozen=True)
class Line:
    """A line that the process has printed, and when, in seconds since its start."""

    at: float
    text: str


class Process:
    """A command and its children. It can be halted and go on, so that several may be measured in turn."""

    def __init__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str], stdin: Path | None = None
    ) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.lines: list[Line] = []
        self.peak = 0  # bytes
        self._others: list[tuple[float, float]] = []  # when, and the seconds that others had computed till then
        self._log = log.open("w", encoding="utf-8")
        self.started = time.monotonic()
        self.popen = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL if stdin is None else stdin.open(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        threading.Thread(target=self._look, daemon=True).start()

    @property
    def age(self) -> float:
        """Seconds since its start."""
        return time.monotonic() - self.started

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.popen.poll() is not None

    @property
    def tail(self) -> str:
        """The last lines, for a complaint."""
        return "\n".join(line.text[-300:] for line in self.lines[-5:])

    def others(self, start: float, end: float) -> float:
        """The cores that anything else used between two ages."""
        seen = [look for look in self._others if start <= look[0] <= end]
        if len(seen) < 3:
            return 0.0
        return (seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0])

    def halt(self) -> None:
        """Let it and its children sleep where they are."""
        os.killpg(self.popen.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Wake it."""
        os.killpg(self.popen.pid, signal.SIGCONT)

    def wait(self, limit: float) -> int:
        """Its exit status. Raises subprocess.TimeoutExpired, the process ended, when it takes longer than `limit`."""
        try:
            status = self.popen.wait(limit)
        except subprocess.TimeoutExpired:
            self.end()
            raise
        self._reader.join(5)
        return status

    def end(self) -> None:
        """End its own process group, which is all that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for text in self.popen.stdout:
            self.lines.append(Line(self.age, text.rstrip("\n")))
            self._log.write(f"{self.age:9.3f} {text}")
            self._log.flush()

    def _look(self) -> None:
        try:
            leader = psutil.Process(self.popen.pid)
            while not self.is_over:
                memory, own = _tree(leader)
                now = psutil.cpu_times()
                busy = sum(now) - now.idle - getattr(now, "iowait", 0.0) - getattr(now, "guest", 0.0)
                self._others.append((self.age, busy - own))
                self.peak = max(self.peak, memory)
                time.sleep(SAMPLE)
        except psutil.Error:
            return


def _tree(leader: psutil.Process) -> tuple[int, float]:
    """The resident bytes of a process tree, and the seconds that it has computed."""
    memory, seconds = 0, 0.0
    for process in [leader, *leader.children(recursive=True)]:
        try:
            memory += process.memory_info().rss
            times = process.cpu_times()
        except psutil.Error:
            continue
        seconds += times.user + times.system + times.children_user + times.children_system
    return memory, seconds


def wait_until_idle(*, limit: float = 600.0) -> bool:
    """Wait for two looks of a second in which the processors rested; whether there were such.

    The load average would not do: it still carries what we ran ourselves.
    """
    end, rested = time.monotonic() + limit, 0
    while rested < 2:
        if time.monotonic() > end:
            return False
        rested = rested + 1 if psutil.cpu_percent(interval=1.0) < 8 else 0
    return True
