"""Start-up: seconds until a command is over that has next to nothing to do."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence

from benchmark.process import wait_until_idle
from benchmark.records import Record
from benchmark.setting import Setting
from benchmark.systems import System
from benchmark.training import Timing, say


def measure_startup(setting: Setting, systems: Sequence[System], timing: Timing) -> list[Record]:
    """All commands in turn, once for nothing and then `rounds` times."""
    commands = [(system, name, call) for system in systems for name, call in system.starts().items()]
    seconds: dict[tuple[str, str], list[float]] = {}
    errors: dict[tuple[str, str], str] = {}
    for number in range(timing.rounds + 1):
        if not timing.busy_ok:
            wait_until_idle()
        for system, name, call in commands:
            began = time.monotonic()
            done = subprocess.run(
                call, env=setting.environment(), capture_output=True, text=True, check=False
            )
            if done.returncode:
                errors[system.name, name] = f"exit {done.returncode}: {done.stderr[-300:]}"
            if number:
                seconds.setdefault((system.name, name), []).append(round(time.monotonic() - began, 3))
                say(f"  {system.name} {name}: {seconds[system.name, name][-1]} s")
    return [
        Record(
            "startup",
            "",
            "",
            system.name,
            system.title,
            name,
            "s",
            tuple(seconds[system.name, name]),
            error=errors.get((system.name, name), ""),
        )
        for system, name, _ in commands
    ]
