"""The roofline: speed of a model if only its matrix products took time."""

from __future__ import annotations

import json
import subprocess
import sys

from benchmark.flops import flops_per_token
from benchmark.process import wait_until_idle
from benchmark.records import Record
from benchmark.setting import Setting
from benchmark.text import lengths
from benchmark.training import Timing, log
from seq2attn.config.load import load
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.models.build import assumed_vocab_sizes, build_on_meta_device

SHARE = 1 / 20
"""Share of the window for each product."""
TRAINING, STEP = "training", "step"
"""The measurement it belongs to: training, or the profile of a step."""
PRODUCT, LINEAR = "product", "linear 256 -> 1024"


def rates(setting: Setting, seconds: float) -> dict[str, dict[str, float]]:
    """Best and median GFLOP/s of each product."""
    command = [sys.executable, "-m", "benchmark.programs.roofline", str(seconds)]
    done = subprocess.run(command, env=setting.environment(), capture_output=True, text=True, check=True)
    output: dict[str, dict[str, float]] = json.loads(done.stdout)
    return output


def measure_roofline(setting: Setting, model: str, timing: Timing, case: str = TRAINING) -> list[Record]:
    """Target tokens a second of a model at the rate of a large product, and at those of T's linear layers."""
    config = load(setting.configs / f"{model}.yaml", ExperimentConfig)
    net = build_on_meta_device(config.model, *assumed_vocab_sizes(config.tokenizer))
    flops, measured = flops_per_token(net, lengths(setting)), list[dict[str, dict[str, float]]]()
    for _ in range(timing.rounds):
        if not timing.busy_ok:
            wait_until_idle()
        measured.append(rates(setting, SHARE * timing.window))
    records = []
    for name in measured[0]:
        best = tuple(round(rate[name]["best"], 1) for rate in measured)
        median = tuple(round(rate[name]["median"], 1) for rate in measured)
        rounds = best if name == PRODUCT else median  # the peak rate, and the actual rate of layers
        facts = {"mflop_a_word": flops / 1e6}
        record = Record("roofline", model, case, name, name, unit="GFLOP/s", rounds=rounds, facts=facts)
        record.facts["ideal"] = round(record.median * 1e9 / flops)  # tokens/s of the model at this rate
        log(f"  roofline: {name}: {record.median:.0f} GFLOP/s, {record.facts['ideal']:,} target tokens/s")
        records.append(record)
    return records
