"""The work of `seq2attn speedrun`: a training to a target of BLEU on the dev set, its record, and a replay of it."""

import json
import os
import platform
import re
import shutil
import subprocess
import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import torch
from pydantic import Field, PositiveInt, TypeAdapter

from seq2attn.config.duration import SECONDS, Duration
from seq2attn.config.load import load_json
from seq2attn.data.fingerprint import file_digest
from seq2attn.errors import DataError, UserError
from seq2attn.evaluation.evaluate import read_sets
from seq2attn.evaluation.evaluate_runs import evaluate_run_directory
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.files import json_bytes, read_object, read_objects, validate
from seq2attn.io.weights import load_tensors, tensors_digest
from seq2attn.metrics.sacrebleu_metrics import Score
from seq2attn.options import TranslationOptions
from seq2attn.sweep.record import machine_name
from seq2attn.training.config_changes import text_digests
from seq2attn.training.distributed import training_device
from seq2attn.training.metrics_logger import METRICS_FILE
from seq2attn.training.prepare_run import prepare
from seq2attn.training.train import train
from seq2attn.version import __version__

CONDITIONS = ("machine", "gpu", "threads", "torch")
"""Parts of an environment that determine how numbers are rounded."""
TOLERANCES = {"update": 0.0, "loss": 0.05, "bleu": 2.0}
"""Differences at a validation that other rounding may cause."""
HINT = "take a record of `seq2attn speedrun`"


@dataclass(frozen=True)
class CurvePoint:
    """A validation on the dev set."""

    update: PositiveInt
    seconds: float  # since the start of the first update
    target_tokens: int
    loss: float
    bleu: float  # greedy


@dataclass(frozen=True)
class SpeedrunRecord:
    """All that is needed to check a speedrun, and to repeat it."""

    target: float
    is_reached: bool
    cpu_seconds: float  # of the process, with building the model
    curve: Annotated[tuple[CurvePoint, ...], Field(min_length=1)]  # the last point is the end
    weights: str  # SHA-256 of the final weights
    test: dict[str, Score]  # BLEU of each test set, by the search of the config
    environment: dict[str, str | int | None]
    texts: dict[str, str]  # SHA-256 of each file for training and validation
    config: dict[str, Any]  # with numbers for `auto`

    def to_json(self) -> str:
        """The record as a file. Its paths are relative to the working directory, as those of a checkout."""
        text = json_bytes(asdict(self)).decode()
        return re.sub(r'"(/[^"\\]+)"', lambda path: json.dumps(os.path.relpath(path[1])), text)


def speedrun(experiment: ExperimentConfig) -> SpeedrunRecord:
    """The record of a training that ends when it reaches `training.validation.target`.

    Raises UserError for a config without a target of BLEU, with validations by time, or with test sets and metrics
    without BLEU, and for several processes; for others see `train`.
    """
    training, validation = experiment.training, experiment.training.validation
    is_timed = validation.every != "auto" and validation.every.unit in SECONDS
    if validation.target is None or validation.metric != "bleu" or is_timed:
        needs = "a `target` (``target``), the metric `bleu`, and `every` in updates or epochs, to be repeated"
        raise UserError(f"`training.validation` of a speedrun needs {needs}")
    if experiment.data.test and "bleu" not in (experiment.evaluation.metrics or ["bleu"]):
        raise UserError("`evaluation.metrics` of a speedrun needs `bleu`, the score of test sets in its record; add it")
    curve, weights, cpu_seconds = _train(experiment)
    run, options = RunDirectory(experiment.run_dir), TranslationOptions(device=training.device)
    trained = run.load_config()
    tests = read_sets(trained.data.test, trained.evaluation)
    results = evaluate_run_directory(run, trained, tests, options)[0] if tests else []
    return SpeedrunRecord(
        target=validation.target,
        is_reached=curve[-1].bleu >= validation.target,
        cpu_seconds=cpu_seconds,
        curve=curve,
        weights=weights,
        test={result.name: result.score("BLEU") for result in results},
        environment=describe_environment(training_device(training.device)),
        texts={file: digest for part in text_digests(experiment.data).values() for file, digest in part.items()},
        config=trained.model_dump(mode="json"),
    )


def verify_speedrun(path: Path) -> tuple[bool, list[str]]:
    """Repeat the training of a record: True if it is the same, and a line for each difference.

    Under the same `CONDITIONS` all is equal; under others, which are lines too, the curve is nearly the same.
    Raises RunError for a file that is no record, DataError for other text than that of the record.
    """
    record = validate(SpeedrunRecord, read_object(path, HINT), path, "is no record", HINT)
    for file, digest in record.texts.items():
        if (now := file_digest(Path(file))) != digest:
            raise DataError(f"{file}: is another text than that of the record (SHA-256 {digest[:12]}, now {now[:12]})")
    experiment = load_json(record.config, Path(path.name), ExperimentConfig)
    experiment = experiment.with_value("training.max_duration", (Duration(record.curve[-1].update, "updates"),))
    for limit in ("time_limit", "validation.target", "validation.patience"):  # of another machine, which differs
        experiment = experiment.with_value(f"training.{limit}", None)
    with TemporaryDirectory(prefix="seq2attn-speedrun-") as folder:
        curve, weights, _ = _train(experiment.with_value("run_dir", Path(folder) / "run"))
    then, here = record.environment, describe_environment(training_device(experiment.training.device))
    others = [f"{key}: {then.get(key)}, now {here[key]}" for key in CONDITIONS if then.get(key) != here[key]]
    lines = [] if others or weights == record.weights else [f"weights: {record.weights}, now {weights}"]
    if len(record.curve) != len(curve):
        lines.append(f"validations: {len(record.curve)}, now {len(curve)}")
    for old, new in zip(record.curve, curve, strict=False):
        for name, tolerance in TOLERANCES.items():
            before, after = vars(old)[name], vars(new)[name]
            if abs(before - after) > tolerance * bool(others):
                lines.append(f"{name} at update {old.update}: {before:.8g}, now {after:.8g}")
    return not lines, lines + others


def _train(experiment: ExperimentConfig) -> tuple[tuple[CurvePoint, ...], str, float]:
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise UserError("a speedrun has one process, whose time is recorded; start it without torchrun")
    prepare(experiment)
    start = time.process_time()
    run = train(experiment)
    seconds = time.process_time() - start
    lines = [line for line in read_objects(run.folder / METRICS_FILE, HINT) if line["kind"] == "validation"]
    curve = TypeAdapter(tuple[CurvePoint, ...]).validate_python(lines)
    return curve, tensors_digest(load_tensors(run.weights_path), {}), seconds


def describe_environment(device: torch.device) -> dict[str, str | int | None]:
    """The machine and the software of a training; the commit, with + for changes, is none for an installed package."""
    checkout, commit = Path(__file__).parents[2], ""
    if (checkout / ".git").exists() and (git := shutil.which("git")):
        command = [git, "-c", "core.abbrev=40", "describe", "--always", "--dirty", "--exclude", "*"]
        commit = subprocess.run(command, cwd=checkout, capture_output=True, text=True).stdout.strip()
    return {
        "machine": machine_name(torch.device("cpu")),
        "gpu": machine_name(device) if device.type == "cuda" else None,
        "threads": torch.get_num_threads(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        **{name: version(name) for name in ("torch", "sacrebleu")},
        "python": platform.python_version(),
        "seq2attn": __version__,
        "commit": commit.replace("-dirty", "+") or None,
    }
