"""Bitwise comparison of an interrupted training with an uninterrupted one: the work of `seq2attn verify-resume`."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from seq2attn.config.duration import Duration
from seq2attn.config.load import dump
from seq2attn.config.plugin import allow_code, plugin_modules
from seq2attn.data.prepare import prepare
from seq2attn.data.readers import PlainTextConfig, read_pairs
from seq2attn.errors import RunError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.files import read_objects, write_bytes
from seq2attn.io.import_path import environment
from seq2attn.io.tables import format_table
from seq2attn.io.weights import load_tensors
from seq2attn.training.checkpoints.retention import validated_checkpoints
from seq2attn.training.metrics_logger import (
    LOG_FILE,
    MEASUREMENTS,
    METRICS_FILE,
    SAMPLES_FILE,
    SESSION_MARK,
    TIMING_PATTERN,
)

Items: TypeAlias = Mapping[str, Tensor | str]
"""Tensors or texts by name."""


@dataclass(frozen=True)
class ComparisonRow:
    """Comparison of one kind of items of two runs."""

    name: str
    num_items: int
    difference: str = ""  # the first

    @property
    def is_identical(self) -> bool:
        """True if all items are equal bit for bit."""
        return not self.difference


def compare_runs(one: RunDirectory, other: RunDirectory) -> list[ComparisonRow]:
    """The comparison of everything but times and memory."""
    return [_compare(name, items(one), items(other)) for name, items in ITEMS.items()]


def format_comparison_table(rows: Iterable[ComparisonRow]) -> str:
    """A line per row, and the first differences below."""
    rows = list(rows)
    cells = [(row.name, "identical" if row.is_identical else "DIFFERENT", f"{row.num_items:,}") for row in rows]
    differences = [f"\n{row.name}: {row.difference}" for row in rows if row.difference]
    return "\n".join([format_table([("compared", "", "how many"), *cells], num_text_columns=2), *differences])


def _weights(run: RunDirectory) -> Items:
    return {
        f"update {checkpoint.train_state.update}: {name}": tensor
        for checkpoint in validated_checkpoints(run.folder)
        for name, tensor in load_tensors(checkpoint.model_path).items()
    }


def _training_state(run: RunDirectory) -> Items:
    return {
        f"update {checkpoint.train_state.update}: {name}": repr(value)
        for checkpoint in validated_checkpoints(run.folder)
        for name, value in {
            **asdict(checkpoint.train_state),
            "digest of frozen weights": checkpoint.frozen,
        }.items()
        if name not in MEASUREMENTS
    }


def _metrics(run: RunDirectory) -> Items:
    lines = _read_metrics(run.folder)
    return _numbered(json.dumps({k: v for k, v in line.items() if k not in MEASUREMENTS}) for line in lines)


def _log(run: RunDirectory) -> Items:
    lines = (TIMING_PATTERN.sub("", line) for line in _lines(run, LOG_FILE).values())
    return _numbered(line for line in lines if not line.startswith(SESSION_MARK))


ITEMS: dict[str, Callable[[RunDirectory], Items]] = {
    "weights": _weights,
    "optimizer": lambda run: {**load_tensors(validated_checkpoints(run.folder)[-1].optimizer_path)},
    "training state": _training_state,
    "metrics": _metrics,
    "log": _log,
    "samples": lambda run: _lines(run, SAMPLES_FILE),
    "weights that translate": lambda run: {**load_tensors(run.weights_path)},
    "their origin": lambda run: {"origin": json.dumps(run.weights_origin())},
}
"""Compared items by their name in the table."""


def _lines(run: RunDirectory, name: str) -> dict[str, str]:
    path = run.folder / name
    return _numbered(path.read_text(encoding="utf-8").split("\n")[:-1] if path.is_file() else [])


def _numbered(lines: Iterable[str]) -> dict[str, str]:
    return {f"line {number}": line for number, line in enumerate(lines, start=1)}


def _compare(name: str, one: Items, other: Items) -> ComparisonRow:
    for key in dict.fromkeys([*one, *other]):
        if difference := _difference(one.get(key), other.get(key)):
            return ComparisonRow(name, len(one), f"{key}: {difference}")
    return ComparisonRow(name, len(one))


def _difference(one: Tensor | str | None, other: Tensor | str | None) -> str:
    """Description of the difference of two items; empty for equal ones."""
    texts = _describe(one), _describe(other)
    if texts[0] != texts[1]:
        return f"{texts[0]}\n  but: {texts[1]}"
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return ""
    if torch.equal(*(tensor.flatten().view(torch.uint8) for tensor in (one, other))):
        return ""
    count, largest = (one != other).sum().item(), (one.double() - other.double()).abs().max().item()
    return f"{count} of {one.numel()} numbers differ, by up to {largest:.3g}"


def _describe(item: Tensor | str | None) -> str:
    if isinstance(item, Tensor):
        return f"{tuple(item.shape)} of {item.dtype}"
    return "nothing" if item is None else item


NUM_DEV_PAIRS = 16
"""Pairs of the shortened dev set."""
NUM_VALIDATIONS = 4
REPORT_EVERY = 4
"""Updates between two reports, so that interruptions come between them."""
INTERRUPTIONS = (signal.SIGTERM, signal.SIGKILL)
"""Signals that end the first sessions: one with a checkpoint, and one without."""
SESSIONS_LOG = "sessions.log"


def verify_resume(
    experiment: ExperimentConfig, folder: Path, log: Callable[[str], None], *, updates: int
) -> list[ComparisonRow]:
    """The comparison of two trainings in `folder`, one without and one with interruptions.

    Raises: UserError for a config or text that cannot be used for training.
    """
    straight, interrupted, config = folder / "straight", folder / "interrupted", folder / "config.yaml"
    short = _shorten(experiment, folder, updates)
    prepare(short.data, short.tokenizer, straight, log)
    shutil.copytree(straight, interrupted)
    write_bytes(config, dump(short).encode())
    _train(config, straight)
    log(f"{updates} updates without interruption")
    allow_code(plugin_modules(short))
    run = RunDirectory(straight)
    batch = run.load_config().training.batch  # with the resolved number of tokens
    training = short.training.model_copy(update={"batch": batch})
    write_bytes(config, dump(short.model_copy(update={"training": training})).encode())
    for number, interruption in enumerate(INTERRUPTIONS, start=1):
        _train(config, interrupted, interruption, number * updates // (len(INTERRUPTIONS) + 1))
        log(f"{interruption.name} after update {_last_reported_update(interrupted)}, and resumed")
    _train(config, interrupted)
    return compare_runs(run, RunDirectory(interrupted))


def _train(config: Path, run: Path, interruption: signal.Signals | None = None, after: int = 0) -> None:
    """A training session in a separate process, to its end or to a signal once `after` updates are reported.

    Raises: RunError when it ends otherwise.
    """
    options = ["--set", f"run_dir={run}", "--resume-if-exists"]
    command = [sys.executable, "-m", "seq2attn", "train", str(config), *options]
    after = max(after, _last_reported_update(run) + 1)  # at least one of this session
    path = run.parent / SESSIONS_LOG
    with (
        path.open("ab") as log,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment()) as process,
    ):
        try:
            if interruption is not None:
                while process.poll() is None and _last_reported_update(run) < after:
                    time.sleep(0.001)
                process.send_signal(interruption)
            code = process.wait()
        finally:
            process.kill()
    if interruption is not None and code == 0:
        raise RunError(f"{run}: the training ended before it could be interrupted; give more --updates")
    if code not in ((0,) if interruption is None else (-interruption, 128 + interruption)):
        *_, last_line = path.read_text("utf-8", errors="replace").strip().split("\n")
        raise RunError(f"{run}: a training ended with exit code {code}: {last_line}")


def _last_reported_update(run: Path) -> int:
    """The last update in metrics.jsonl."""
    return max((int(line["update"]) for line in _read_metrics(run)), default=0)


def _read_metrics(run: Path) -> Iterable[dict[str, Any]]:
    path = run / METRICS_FILE
    return read_objects(path, "give a new folder") if path.is_file() else ()


def _shorten(experiment: ExperimentConfig, folder: Path, updates: int) -> ExperimentConfig:
    """The config of a short training, with few dev pairs and frequent reports."""
    for side, name in enumerate(("source", "target")):
        lines = [pair[side] for pair in islice(read_pairs(experiment.data.dev), NUM_DEV_PAIRS)]
        write_bytes(folder / f"dev.{name}", "".join(line + "\n" for line in lines).encode())
    dev = PlainTextConfig(source=folder / "dev.source", target=folder / "dev.target")
    data = experiment.data.model_copy(update={"dev": dev, "test": {}})
    training = experiment.training
    every = Duration(max(1, updates // NUM_VALIDATIONS), "updates")
    training = training.model_copy(
        update={
            "max_duration": (Duration(updates, "updates"),),
            "time_limit": None,
            "report_every": REPORT_EVERY,
            "tensorboard": False,
            "deterministic": True,
            "validation": training.validation.model_copy(update={"every": every, "patience": None}),
            "checkpoints": training.checkpoints.model_copy(update={"keep_last": updates}),
        }
    )
    return experiment.model_copy(update={"data": data, "training": training})
