"""Time of each part of our training step, and its share of the roofline."""

from __future__ import annotations

import json
import subprocess
import sys

from benchmark.process import wait_until_idle
from benchmark.records import Record
from benchmark.roof import STEP, measure_roofline
from benchmark.setting import Setting, UnavailableError
from benchmark.systems import Ours
from benchmark.training import Timing, log

UPDATES, WARM = 30, 6


def measure_profile(setting: Setting, ours: Ours, model: str, timing: Timing, updates: int = UPDATES) -> list[Record]:
    """Milliseconds per update of each part in each round; for T also the roofline.

    Raises UnavailableError when the training fails.
    """
    training = ours.trainings(model)[0]
    settings = training.command[training.command.index("--set") :]
    module = [sys.executable, "-m", "benchmark.programs.steps", str(ours.experiment(model))]
    command = [*module, str(updates), str(WARM), *settings]
    rounds = list[dict[str, float]]()
    rates = list[float]()
    for _ in range(timing.rounds):
        if not timing.busy_ok:
            wait_until_idle()
        done = subprocess.run(command, env=setting.environment(), capture_output=True, text=True, check=False)
        if done.returncode:
            raise UnavailableError(f"profile of {model}: {done.stderr[-500:]}")
        profile = json.loads(done.stdout.split("\n")[-2])
        rounds.append({part: 1000 * s / profile["updates"] for part, s in profile["seconds"].items()})
        rates.append(profile["words"] / sum(profile["seconds"].values()))
        log(f"  profile of {model}: {rates[-1]:,.0f} target tokens/s")
    records = [
        Record(
            "profile",
            model,
            "",
            part,
            part,
            unit="ms an update",
            rounds=tuple(round(r[part], 2) for r in rounds),
        )
        for part in rounds[0]
    ]
    records.append(
        Record(
            "profile", model, "", ours.name, ours.title, unit="target tokens/s",
            rounds=tuple(round(rate, 1) for rate in rates),
        )
    )  # fmt: skip
    return records + (measure_roofline(setting, model, timing, STEP) if model == "t" else [])
