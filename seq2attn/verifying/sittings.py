"""A training in sittings: each a process of its own, most of them ended before their time."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from seq2attn.errors import RunError
from seq2attn.import_path import environment
from seq2attn.training.checkpoint import FOLDER
from seq2attn.training.report import METRICS

How = Literal["SIGKILL", "SIGTERM", "SIGKILL while saving"]
HOWS: tuple[How, ...] = ("SIGKILL", "SIGTERM", "SIGKILL while saving")
EXPECTED = (0, -signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGTERM)
"""How a sitting may end: SIGTERM before the first update has nothing to save, and needs no exit of ours."""
LOG = "sittings.log"


@dataclass(frozen=True)
class Interruption:
    """When a sitting is ended, and how."""

    how: How
    after: int  # updates that were reported, some of them in this sitting
    delay: float  # seconds more


def interruptions(count: int, updates: int, update_seconds: float, seed: int) -> list[Interruption]:
    """Spread over a training, at random within their share of it, of every kind in turn."""
    draw = random.Random(seed)
    return [
        Interruption(
            HOWS[number % len(HOWS)],
            int((number + draw.random() * 0.8) * updates / count),
            draw.random() * 3 * update_seconds,
        )
        for number in range(count)
    ]


def sit(config: Path, run: Path, interruption: Interruption | None = None) -> int:
    """Train in a process of its own, going on if there is something to go on with, until it ends or is ended.

    Returns its exit code. Raises: RunError when it ended in another way than it was asked to.
    """
    command = [sys.executable, "-m", "seq2attn", "train", str(config), "--resume", "auto"]
    run.mkdir(parents=True, exist_ok=True)
    with (run.parent / LOG).open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment()
        )
        try:
            if interruption is not None and _wait_for(process, run, interruption):
                number = signal.SIGTERM if interruption.how == "SIGTERM" else signal.SIGKILL
                process.send_signal(number)
            code = process.wait()
        finally:
            process.kill()
            process.wait()
    if code not in EXPECTED:
        said = (run.parent / LOG).read_text("utf-8", errors="replace").strip().split("\n")
        raise RunError(f"{run}: a training ended with exit code {code}: {said[-1]}")
    return code


def updates_reported(run: Path) -> int:
    """The last update that metrics.jsonl tells of."""
    path = run / METRICS
    lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
    return int(json.loads(lines[-1])["update"]) if lines else 0


def _wait_for(process: subprocess.Popen[bytes], run: Path, interruption: Interruption) -> bool:
    """Until it is time; whether the process was still there then."""
    size = least = _size(run)

    def has_learnt() -> bool:
        nonlocal size, least
        size = _size(run)
        least = min(least, size)  # resumed, it is cut first
        return size > least and updates_reported(run) >= interruption.after

    def is_saving() -> bool:
        return any((run / FOLDER).glob("*.partial"))

    saves = interruption.how == "SIGKILL while saving"
    for moment in (has_learnt, is_saving)[: 1 + saves]:
        while not moment():
            if process.poll() is not None:
                return False
            time.sleep(0.001)
    if not saves:
        time.sleep(interruption.delay)
    return True


def _size(run: Path) -> int:
    path = run / METRICS
    return path.stat().st_size if path.is_file() else 0
