"""Training in turn: every system is started and warmed up once, then one runs while the others are halted."""

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
from benchmark.systems import System
from benchmark.systems.base import Progress, Training

LOOK = 0.1
"""Seconds between two looks at a log."""
PATIENCE = 6
"""A window may last so many times as long as was asked for, or `START` if that is more, before it is given up."""
START = 240.0
"""Seconds within which a training must tell of its first update."""


@dataclass(frozen=True)
class Timing:
    """How long is measured."""

    rounds: int = 3
    window: float = 15.0  # undisturbed seconds of each round
    warm: float = 10.0  # seconds after the first report that count for nothing
    busy_ok: bool = False


@dataclass(frozen=True)
class Window:
    """What was learnt in a round."""

    words: float
    updates: int
    seconds: float
    disturbed: float

    @property
    def rate(self) -> float:
        """Target tokens a second."""
        return self.words / self.seconds


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
        """For the one who waits."""
        return f"{self.system.name} {self.training.variant}".strip()

    def reports(self) -> list[tuple[float, Progress]]:
        """What the log has told since the last look, and when."""
        lines = self.process.lines[self.read :]
        self.read += len(lines)
        found = [(line.at, told) for line in lines if (told := self.training.progress(line.text)) is not None]
        self.gpu_memory_mib = max(
            (told.gpu_memory_mib for _, told in found if told.gpu_memory_mib), default=self.gpu_memory_mib
        )
        return found


def measure_training(
    setting: Setting, systems: Sequence[System], model: str, timing: Timing, case: str = ""
) -> list[Record]:
    """Target tokens a second of all systems that have such a model, and the most memory they took."""
    runners = list[Runner]()
    try:
        for system in systems:
            for training in system.trainings(model):
                if not timing.busy_ok:
                    wait_until_idle()
                say(f"{model}: starting {system.name} {training.variant}")
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
    return [record for runner in runners for record in _records(runner, model, case)]


def _warm_up(runner: Runner, timing: Timing) -> None:
    process, first = runner.process, None
    while first is None or process.age < first + timing.warm:
        time.sleep(LOOK)
        told = runner.reports()
        first = told[0][0] if first is None and told else first
        if process.is_over or (first is None and process.age > START):
            runner.error = f"no update within {process.age:.0f} s: {process.tail}"
            process.end()
            return
    process.halt()


def _round(runner: Runner, number: int, timing: Timing) -> None:
    process = runner.process
    if not timing.busy_ok:
        wait_until_idle()
    runner.reports()
    process.go_on()
    began, points = process.age, list[tuple[float, Progress]]()
    window = Window(0.0, 0, 0.0, 0.0)
    while window.seconds < timing.window:
        time.sleep(LOOK)
        points += [(at, told) for at, told in runner.reports() if at > began]
        window = counted(points, lambda a, b: timing.busy_ok or process.others(a, b) < QUIET)
        if process.is_over or process.age > began + max(START, PATIENCE * timing.window):
            runner.error = f"round {number + 1} has no undisturbed {timing.window} s: {process.tail}"
            return
    process.halt()
    runner.windows.append(window)
    say(f"  round {number + 1}: {runner.label}: {window.rate:,.0f} target tokens/s")


def counted(points: Sequence[tuple[float, Progress]], is_quiet: Callable[[float, float], bool]) -> Window:
    """What the intervals between reports sum to, without those in which something else ran."""
    words = seconds = disturbed = 0.0
    updates = 0
    for (start, before), (end, after) in itertools.pairwise(points):
        if not is_quiet(start, end):
            disturbed += end - start
            continue
        seconds += end - start
        updates += after.update - before.update
        words += learnt(before, after, end - start)
    return Window(words, updates, seconds, disturbed)


def learnt(before: Progress, after: Progress, seconds: float) -> float:
    """The target tokens between two reports."""
    if before.words is not None and after.words is not None:
        return after.words - before.words
    assert after.rate is not None
    return after.rate * seconds


def _records(runner: Runner, model: str, case: str) -> list[Record]:
    system, training, windows = runner.system, runner.training, runner.windows
    updates = sum(window.updates for window in windows)
    peak = round(runner.gpu_memory_mib or runner.process.peak / 2**20)
    facts = {}
    if updates and not runner.error:
        seconds = sum(window.seconds for window in windows)
        facts = {
            "tokens_an_update": round(sum(window.words for window in windows) / updates),
            "updates_a_second": round(updates / seconds, 3),
            "seconds": round(seconds, 1),
            "disturbed_seconds": round(sum(window.disturbed for window in windows), 1),
        }
    shared: dict[str, Any] = {
        "model": model, "case": case, "system": system.name, "title": system.title, "variant": training.variant,
        "note": training.note, "error": runner.error,
    }  # fmt: skip
    rates = tuple(round(window.rate, 1) for window in windows)
    return [
        Record("train", unit="target tokens/s", rounds=rates, facts=facts, **shared),
        Record("memory", unit="MiB", rounds=(peak,), **shared),
    ]


def say(text: str) -> None:
    """To the one who waits."""
    print(text, file=sys.stderr, flush=True)
