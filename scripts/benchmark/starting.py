"""Start-up time: seconds of a command with almost no work."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence

from benchmark.process import wait_until_idle
from benchmark.records import Record
from benchmark.setting import Setting
from benchmark.systems import System
from benchmark.training import Timing, log


def measure_startup(setting: Setting, systems: Sequence[System], timing: Timing) -> list[Record]:
    """Time of all commands in turn, after one run without timing."""
    starts = [(system, start) for system in systems for start in system.starts()]
    seconds: list[list[float]] = [[] for _ in starts]
    errors = [""] * len(starts)
    for number in range(timing.rounds + 1):
        if not timing.busy_ok:
            wait_until_idle()
        for place, (_, start) in enumerate(starts):
            began = time.monotonic()
            done = subprocess.run(start.command, env=setting.environment(), capture_output=True, text=True, check=False)
            if done.returncode:
                errors[place] = f"exit {done.returncode}: {done.stderr[-300:]}"
            if number:
                seconds[place].append(round(time.monotonic() - began, 3))
                log(f"  {start.name}: {seconds[place][-1]} s")
    return [
        Record("startup", "", start.case, system.name, system.title, start.name, "s", tuple(figures), error=error)
        for (system, start), figures, error in zip(starts, seconds, errors, strict=True)
    ]
