"""Sweeps of the small text."""

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support.commands import ENVIRONMENT, command, write_toy

SWEEP = """\
base: toy.yaml
folder: runs/sweep
changes:
  model: {embeddings: {dim: 16}, encoder: {dim: 16}}
  training: {max_duration: [2 updates], validation: {every: 1 update}, optimizer: {lr: 0.02}}
  search: {kind: greedy}
  evaluation: {lowercase: true, metrics: [bleu, exact, paper_bleu], paper_bleu: {lowercase: true}}
axes:
  model:
    at: model
    choices:
      fixed: {decoder: {kind: fixed-context, dim: 16}}
      luong: {decoder: {kind: luong, dim: 16, attention: {score: {kind: general}}}}
seeds: [1]
baseline: {model: fixed}
"""


def home(folder: Path, sweep: str = SWEEP) -> Path:
    folder.mkdir(exist_ok=True)
    write_toy(folder)
    (folder / "sweep.yaml").write_text(sweep, encoding="utf-8")
    return folder


def results(folder: Path) -> dict[str, int]:
    """The finished trainings, with the time of their results."""
    trials = folder / "runs/sweep/trials"
    return {str(path.relative_to(trials).parent): path.stat().st_mtime_ns for path in trials.rglob("result.json")}


def start(folder: Path, *arguments: str, name: Sequence[str] = ("sweep", "sweep.yaml")) -> subprocess.Popen[bytes]:
    line = command(*name, *arguments)
    return subprocess.Popen(line, cwd=folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def wait_until(condition: Callable[[], bool]) -> bool:
    """Return True if the condition became true within a minute."""
    deadline = time.monotonic() + 60
    while not (is_true := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return is_true


def wait_for(pattern: str, folder: Path) -> None:
    def is_there() -> bool:
        try:
            return any(folder.rglob(pattern))
        except FileNotFoundError:  # a folder of a `.partial` file that was renamed meanwhile
            return False

    assert wait_until(is_there), f"no {pattern} in {folder}"


def workers(folder: Path) -> list[int]:
    ids = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line, cwd = (process / "cmdline").read_bytes(), (process / "cwd").readlink()
        except OSError:
            continue
        if b"seq2attn.sweep.worker" in line and cwd == folder:
            ids.append(int(process.name))
    return ids
