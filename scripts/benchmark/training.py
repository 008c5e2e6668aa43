"""Training in turn: all systems are started and warmed up, then one runs while the others are paused."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmark.process import QUIET, Process, wait_until_idle
from benchmark.records import Record
from benchmark.setting import Setting
from benchmark.systems import Progress, System, Training

POLL_SECONDS = 0.1
"""Seconds between two reads of a log."""
MAX_WINDOW_FACTOR = 6
"""Maximum duration of a round, in windows; at least `START_TIMEOUT`."""
START_TIMEOUT = 240.0
"""Maximum seconds until the first update."""


@dataclass(frozen=True)
class Timing:
    """Durations of a measurement."""

    rounds: int = 3
    window: float = 15.0  # undisturbed seconds of each round
    warm: float = 10.0  # seconds after the first report without measurement
    busy_ok: bool = False


@dataclass(frozen=True)
class Window:
    """Tokens and updates of a round."""

    num_tokens: float
    updates: int
    seconds: float
    disturbed: float

    @property
    def rate(self) -> float:
        """Target tokens per second."""
        return self.num_tokens / self.seconds


@dataclass
class Runner:
    """A training that has been started."""

    system: System
    training: Training
    process: Process
    read: int = 0
    windows: list[Window] = field(default_factory=list)
    error: str = ""
    gpu_memory_mib: float | None = None

    @property
    def label(self) -> str:
        """Name in the log."""
        return f"{self.system.name} {self.training.variant}".strip()

    def reports(self) -> list[tuple[float, Progress]]:
        """New reports in the log, with their times."""
        lines = self.process.lines[self.read :]
        self.read += len(lines)
        reports = [(line.at, one) for line in lines if (one := self.training.progress(line.text)) is not None]
        memory = (one.gpu_memory_mib for _, one in reports if one.gpu_memory_mib)
        self.gpu_memory_mib = max(memory, default=self.gpu_memory_mib)
        return reports


def measure_training(setting: Setting, systems: Sequence[System], model: str, timing: Timing) -> list[Record]:
    """Target tokens per second and peak memory of all systems with this model."""
    runners = list[Runner]()
    try:
        for system in systems:
            for training in system.trainings(model):
                if not timing.busy_ok:
                    wait_until_idle()
                log(f"{model}: starting {system.name} {training.variant}")
                process = Process(training.command, training.log, setting.environment())
                runners.append(Runner(system, training, process))
                _warm_up(runners[-1], timing)
        for number in range(timing.rounds):
            for runner in runners:
                if not runner.error:
                    _round(runner, number, timing)
    finally:
        for runner in runners:
            runner.process.end()
    return [record for runner in runners for record in _records(runner, model)]


def _warm_up(runner: Runner, timing: Timing) -> None:
    process, first = runner.process, None
    while first is None or process.age < first + timing.warm:
        time.sleep(POLL_SECONDS)
        reports = runner.reports()
        first = reports[0][0] if first is None and reports else first
        if process.has_ended or (first is None and process.age > START_TIMEOUT):
            runner.error = f"no update within {process.age:.0f} s: {process.tail}"
            process.end()
            return
    process.pause()


def _round(runner: Runner, number: int, timing: Timing) -> None:
    process = runner.process
    if not timing.busy_ok:
        wait_until_idle()
    runner.reports()
    process.resume()
    began, points = process.age, list[tuple[float, Progress]]()
    window = Window(0.0, 0, 0.0, 0.0)
    while window.seconds < timing.window:
        time.sleep(POLL_SECONDS)
        points += [(at, progress) for at, progress in runner.reports() if at > began]
        window = sum_intervals(points, lambda a, b: timing.busy_ok or process.others(a, b) < QUIET)
        if process.has_ended or process.age > began + max(START_TIMEOUT, MAX_WINDOW_FACTOR * timing.window):
            runner.error = f"round {number + 1} has no undisturbed {timing.window} s: {process.tail}"
            return
    process.pause()
    runner.windows.append(window)
    log(f"  round {number + 1}: {runner.label}: {window.rate:,.0f} target tokens/s")


def sum_intervals(points: Sequence[tuple[float, Progress]], is_quiet: Callable[[float, float], bool]) -> Window:
    """Sum of the intervals between reports, without disturbed ones."""
    num_tokens = seconds = disturbed = 0.0
    updates = 0
    for (start, before), (end, after) in itertools.pairwise(points):
        if not is_quiet(start, end):
            disturbed += end - start
            continue
        seconds += end - start
        updates += after.update - before.update
        num_tokens += after.num_tokens - before.num_tokens
    return Window(num_tokens, updates, seconds, disturbed)


def _records(runner: Runner, model: str) -> list[Record]:
    system, training, windows = runner.system, runner.training, runner.windows
    updates = sum(window.updates for window in windows)
    peak = round(runner.gpu_memory_mib or runner.process.peak / 2**20)
    facts = {}
    if updates and not runner.error:
        seconds = sum(window.seconds for window in windows)
        facts = {
            "tokens_an_update": round(sum(window.num_tokens for window in windows) / updates),
            "updates_a_second": round(updates / seconds, 3),
            "seconds": round(seconds, 1),
            "disturbed_seconds": round(sum(window.disturbed for window in windows), 1),
        }
    shared: dict[str, Any] = {
        "model": model, "case": "", "system": system.name, "title": system.title, "variant": training.variant,
        "note": training.note, "error": runner.error,
    }  # fmt: skip
    rates = tuple(round(window.rate, 1) for window in windows)
    return [
        Record("train", unit="target tokens/s", rounds=rates, facts=facts, **shared),
        Record("memory", unit="MiB", rounds=(peak,), **shared),
    ]


def log(text: str) -> None:
    """Print to standard error."""
    print(text, file=sys.stderr, flush=True)
