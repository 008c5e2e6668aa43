"""Process of one training: `python -m seq2attn.sweep.worker RUN_DIR JOBS LOCK [MODULE...]`.

It trains and evaluates `RUN_DIR/trial.json`, with plug-ins from the modules that the sweep's own config names; LOCK is
the descriptor of the lock of the sweep. Its standard input is a pipe from the sweep: when that closes, the worker saves
a checkpoint and ends.
"""

import os
import signal
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import torch

from seq2attn.config.plugin import allow_code
from seq2attn.errors import TrainingInterrupted, UserError
from seq2attn.evaluation.evaluate import SetResult, evaluate_run, load_with_origin, read_sets, write_report
from seq2attn.inference.load import load_translator
from seq2attn.io.lock import hold_lock
from seq2attn.io.terminal import name_options
from seq2attn.models.build import count_parameters
from seq2attn.options import TranslationOptions
from seq2attn.sweep.record import SWEEP_LOCK, RunRecord, TrainingSummary, machine_name, read_trial, write_record
from seq2attn.training.checkpoints.checkpoint import list_checkpoints
from seq2attn.training.train import train

TERMINATE_GRACE_SECONDS = 10.0
"""Time from the request to end a training until it is killed."""


def main() -> int:
    """Train and evaluate; return the exit code."""
    folder, jobs, lock = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    allow_code(sys.argv[4:])
    threading.Thread(target=_end_with_the_sweep, daemon=True).start()
    try:
        hold_lock(folder.parents[2] / SWEEP_LOCK, lock)
        write_record(folder, run_trial(folder, jobs))
    except UserError as error:
        print(name_options(f"error: {error}"), file=sys.stderr)
        return 2
    except TrainingInterrupted as stopped:
        print(stopped, file=sys.stderr)
        return stopped.exit_code
    return 0


def run_trial(folder: Path, jobs: int) -> RunRecord:
    """Train in `folder`, from its latest checkpoint if there is one, then evaluate on the test sets."""
    experiment = read_trial(folder)
    run = train(experiment, resume="if-exists")
    state = list_checkpoints(folder)[-1].train_state
    options = TranslationOptions(device=experiment.training.device)
    translator, origin = load_with_origin([run], lambda: load_translator(run, run.load_config(), options))
    tests = read_sets(experiment.data.test, experiment.evaluation)
    results = dict[str, SetResult]()
    for result in evaluate_run(run, translator, tests):
        write_report(run, origin, result, translator.search, translator.engine.description)
        results[result.name] = result
    summary = TrainingSummary(
        parameters=count_parameters(translator.model),
        seconds=state.seconds,
        updates=state.update,
        epochs=state.epochs,
        threads=torch.get_num_threads(),
        jobs=jobs,
        machine=machine_name(translator.model.device),
        torch=torch.__version__,
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
    )
    return RunRecord(summary, results)


def _end_with_the_sweep() -> None:
    os.read(0, 1)  # blocks until the pipe is closed: nothing is written to it
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(TERMINATE_GRACE_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
