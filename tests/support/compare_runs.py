"""Comparison of two trainings bit for bit, in all that they wrote but times, memory and lines about sessions."""

import json
import re
from dataclasses import asdict

import torch

from seq2attn.io.weights import load_tensors
from seq2attn.training.checkpoints.retention import validated_checkpoints

MEASUREMENTS = frozenset({"seconds", "target_tokens_per_second", "gpu_memory_mib", "gpu_reserved_mib"})
"""Times and memory in metrics.jsonl: all other numbers are the same when a training is repeated."""
TIMING_PATTERN = re.compile(r"^[0-9-]+ [0-9:]+ |[0-9,]+ target tokens/s(, [0-9,]+ (min|s) left)?")
"""Timings in train.log."""


def assert_identical(one, other):
    contents, others = run_contents(one), run_contents(other)
    differing = [name for name in contents | others if contents.get(name) != others.get(name)]
    assert not differing, f"{one.folder} and {other.folder} differ in {differing}"
    kinds = {name.partition(":")[0] for name in contents}
    assert kinds >= {"weights", "optimizer", "training state", "metrics", "train.log", "published weights"}


def run_contents(run):
    """The compared items of a run directory by kind and name."""
    checkpoints = validated_checkpoints(run.folder)
    contents = {"origin": json.dumps(run.weights_origin())}
    contents |= _tensors("optimizer", checkpoints[-1].optimizer_path) | _tensors("published weights", run.weights_path)
    for checkpoint in checkpoints:
        update = checkpoint.train_state.update
        contents |= _tensors(f"weights: update {update}", checkpoint.model_path)
        state = asdict(checkpoint.train_state) | {"frozen": checkpoint.frozen}
        contents |= {
            f"training state: update {update}: {k}": repr(v) for k, v in state.items() if k not in MEASUREMENTS
        }
    log = [TIMING_PATTERN.sub("", line) for line in _lines(run, "train.log")]
    contents |= number_lines("train.log", [line for line in log if not line.startswith("# ")])
    reports = map(json.loads, _lines(run, "metrics.jsonl"))
    contents |= number_lines(
        "metrics", ({k: v for k, v in report.items() if k not in MEASUREMENTS} for report in reports)
    )
    return contents | number_lines("samples", _lines(run, "samples.txt"))


def _tensors(kind, path):
    return {
        f"{kind}: {name}": (tensor.dtype, tensor.shape, tensor.flatten().view(torch.uint8).numpy().tobytes())
        for name, tensor in load_tensors(path).items()
    }


def _lines(run, name):
    path = run.folder / name
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.is_file() else []


def number_lines(kind, lines):
    return {f"{kind}: line {number}": line for number, line in enumerate(lines, start=1)}
