"""The work of `seq2attn verify-resume`: comparison of an interrupted training with an uninterrupted one."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from seq2attn.config.duration import Duration
from seq2attn.config.load import dump
from seq2attn.config.plugin import allow_code, plugin_modules
from seq2attn.data.prepare import prepare
from seq2attn.data.readers import PlainTextConfig, read_pairs
from seq2attn.diagnostics.compare_runs import ComparisonRow, compare_runs
from seq2attn.errors import RunError
from seq2attn.experiment import ExperimentConfig
from seq2attn.io.files import write_bytes
from seq2attn.io.import_path import environment
from seq2attn.run_directory import RunDirectory
from seq2attn.training.metrics_logger import METRICS_FILE

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
    path = run / METRICS_FILE
    lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
    return int(json.loads(lines[-1])["update"]) if lines else 0


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
            "validation": training.validation.model_copy(update={"every": every}),
            "checkpoints": training.checkpoints.model_copy(update={"keep_last": updates}),
        }
    )
    return experiment.model_copy(update={"data": data, "training": training})
