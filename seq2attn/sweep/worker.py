"""The process of one training: `python -m seq2attn.sweep.worker RUN` trains `RUN/trial.json`, and measures it.

It ends with the process that started it, however that ends: it holds the other end of its standard input.
"""

from __future__ import annotations

import os
import platform
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import torch

from seq2attn.config.plugin import plugin_modules
from seq2attn.config.trust import allow_code
from seq2attn.errors import TrainingInterrupted, UserError
from seq2attn.evaluation.evaluate import (
    TestSetResult,
    TrainingTextInfo,
    evaluate_run,
    load_with_origin,
    test_sets,
    write_reports,
)
from seq2attn.inference.translator import Translator
from seq2attn.models.summary import count_parameters
from seq2attn.run_directory import RunDirectory
from seq2attn.sweep.record import TRAINED, RunRecord, TestSetMeasurement, read_trial, write_record
from seq2attn.training.checkpoints.checkpoint import list_checkpoints
from seq2attn.training.train import train


def main() -> int:
    """Train and measure; the exit code."""
    folder, jobs = Path(sys.argv[1]), int(sys.argv[2])
    threading.Thread(target=_end_with_the_sweep, daemon=True).start()
    try:
        write_record(folder, run_trial(folder, jobs))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except TrainingInterrupted as stopped:
        print(stopped, file=sys.stderr)
        return stopped.exit_code
    return 0


def run_trial(folder: Path, jobs: int) -> RunRecord:
    """Train in `folder`, from its newest checkpoint if it has one, then translate and score the test sets.

    Where a training is only to be measured anew, it is not trained again.
    """
    experiment = read_trial(folder)
    if (folder / TRAINED).is_file():
        allow_code(plugin_modules(experiment))
        run = RunDirectory(folder)
        run.save_config(experiment)
    else:
        run = train(experiment, resume="if-exists")
    state = list_checkpoints(folder)[-1].train_state
    translator, origin = load_with_origin(run, lambda: Translator.load(folder))
    sets, learnt = test_sets(experiment, None, []), TrainingTextInfo.from_run(run)
    results = evaluate_run(translator, sets, experiment.search, experiment.evaluation, learnt)
    write_reports(run, origin, results, experiment.search)
    return RunRecord(
        parameters=count_parameters(translator.model),
        seconds=state.seconds,
        updates=state.update,
        epochs=state.epochs,
        threads=torch.get_num_threads(),
        jobs=jobs,
        machine=machine_name(),
        torch=torch.__version__,
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        sets={result.name: _measured(result) for result in results},
    )


def _measured(result: TestSetResult) -> TestSetMeasurement:
    return TestSetMeasurement(
        result.digests,
        result.sentences,
        result.scores,
        result.seconds,
        result.num_tokens,
        result.translations,
    )


def machine_name() -> str:
    """What was measured on, as far as it tells."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    about = Path("/proc/cpuinfo")
    lines = about.read_text("utf-8").split("\n") if about.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


def _end_with_the_sweep() -> None:
    os.read(0, 1)  # nothing is ever written to it
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
