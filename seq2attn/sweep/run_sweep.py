"""The work of `seq2attn sweep`: trainings, evaluations and the leaderboard. A sweep that was stopped can be resumed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path

import torch
from tqdm import tqdm

from seq2attn.config.plugin import plugin_modules
from seq2attn.data.prepare import prepare
from seq2attn.data.prepared_data import PREPARED
from seq2attn.errors import RunError
from seq2attn.io.files import FORMAT_VERSION, atomic_dir, remove_dir, remove_temporary, write_bytes, write_json
from seq2attn.io.import_path import environment
from seq2attn.io.lock import check_locks, lock_directory
from seq2attn.io.tables import format_table
from seq2attn.io.terminal import Log, plural
from seq2attn.models.build import assumed_vocab_sizes, build_for_inspection, count_parameters
from seq2attn.sweep.leaderboard import build_leaderboard, leaderboard_html, leaderboard_markdown
from seq2attn.sweep.plan import SweepPlan, TrialRun
from seq2attn.sweep.record import (
    RESULT_FILE,
    SWEEP_LOCK,
    TRIAL_FILE,
    ExperimentFingerprints,
    changed_options,
    changed_parts,
    changes_validation,
    read_record,
    write_trial,
)
from seq2attn.sweep.worker import TERMINATE_GRACE_SECONDS
from seq2attn.training.checkpoints.checkpoint import checkpoint_folders

EVALUATION_PARTS = {"test sets", "search"}
"""Parts of a config that training does not depend on, but for the search of its validations."""
LOCK_TIMEOUT = TERMINATE_GRACE_SECONDS + 5
"""Seconds within which the trainings of a killed sweep end."""


def lock_sweep(folder: Path) -> AbstractContextManager[int]:
    """A lock on the folder of a sweep, for as long as files are written there: its descriptor.

    Raises RunError for a folder with files of others, or if another process runs a sweep in it.
    """
    refuse_other_files(folder)
    return lock_directory(folder, SWEEP_LOCK, advice="give another `folder`", timeout=LOCK_TIMEOUT)


def run_sweep(plan: SweepPlan, jobs: int, lock: int, log: Log, *, redo: bool = False) -> list[FinishedRun]:
    """Train and evaluate all runs that are not finished; return those that failed. `lock` is that of `lock_sweep`.

    Raises RunError for runs whose config has changed, unless `redo`, which repeats them.
    """
    experiments = ExperimentFingerprints()
    fingerprints = {run.folder: experiments.fingerprint(run.experiment) for run in plan.runs}
    _reset_changed(plan, fingerprints, log, redo=redo)
    waiting = [run for run in plan.runs if read_record(run.folder) is None]
    log(
        f"{len(plan.trials)} trials x {len(plan.sweep.seeds)} seeds: {len(plan.runs) - len(waiting)} trainings"
        f" finished, {len(waiting)} to go; up to {jobs} simultaneous, threads each: {threads(jobs)}"
    )
    link_prepared_data(waiting, experiments, plan.sweep.folder, log)
    for run in waiting:
        write_trial(run, fingerprints[run.folder])
    return _run_and_log(waiting, jobs, lock, log)


def refuse_other_files(folder: Path) -> None:
    """Raises RunError for a folder without a sweep whose files a sweep, or `reproduce`, would replace."""
    names = "leaderboard.md", "leaderboard.json", "leaderboard.html", "report.md", "report.json"
    others = [name for name in names if (folder / name).exists()]
    if others and not (folder / SWEEP_LOCK).exists():
        raise RunError(f"{folder}: `{others[0]}` would be replaced, and is not part of a sweep; give another `folder`")


def write_leaderboard(plan: SweepPlan, log: Log) -> str:
    """Write the leaderboard of all finished runs as Markdown, JSON and HTML; return the Markdown."""
    refuse_other_files(plan.sweep.folder)
    log(f"comparing with the baseline, {plan.baseline.name}")
    board = build_leaderboard(plan)
    folder, markdown = plan.sweep.folder, leaderboard_markdown(board)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SWEEP_LOCK).open("a").close()  # the mark of a sweep, also of one that has not begun
    write_bytes(folder / "leaderboard.md", markdown.encode())
    write_json(folder / "leaderboard.json", {"format": FORMAT_VERSION, **asdict(board)})
    write_bytes(folder / "leaderboard.html", leaderboard_html(board).encode())
    log(f"leaderboard: {folder / 'leaderboard.html'} (and .md, .json)")
    return markdown


def describe_plan(plan: SweepPlan) -> str:
    """Table of the trials: sizes of their models, and finished runs."""
    rows = [("trial", "parameters", "finished", "")]
    for trial in plan.trials:
        sizes = assumed_vocab_sizes(trial.experiment.tokenizer)
        size = count_parameters(build_for_inspection(trial.experiment.model, *sizes))
        runs = [TrialRun(trial, seed) for seed in plan.sweep.seeds]
        finished = [run for run in runs if read_record(run.folder)]
        changed = sum(bool(changed_options(run)) for run in finished)
        notes = ["baseline"] * (trial is plan.baseline) + [f"{changed} of another config"] * (changed > 0)
        rows.append((trial.name, f"{size:,}", f"{len(finished) - changed}/{len(runs)}", ", ".join(notes)))
    return f"{format_table(rows)}\n{len(plan.trials)} trials x {len(plan.sweep.seeds)} seeds (parameters at most)"


def _reset_changed(plan: SweepPlan, fingerprints: dict[Path, dict[str, object]], log: Log, *, redo: bool) -> None:
    """Remove the results of runs whose config has changed. Raises RunError for such a run unless `redo`."""
    changes = [(run, parts) for run in plan.runs if (parts := changed_parts(run, fingerprints[run.folder]))]
    if changes and not redo:
        shown = [f"{run} ({', '.join(parts)})" for run, parts in changes[:5]]
        more = f" and {len(changes) - 5} more" if len(changes) > 5 else ""
        raise RunError(
            f"{plan.sweep.folder}: holds trainings of another config or text: {', '.join(shown)}{more};"
            " repeat them by ``redo``, or give another `folder`"
        )
    for run, parts in changes:
        validates_anew = "search" in parts and changes_validation(run)
        if {*parts} <= EVALUATION_PARTS and not validates_anew:
            work = "evaluating"
            (run.folder / RESULT_FILE).unlink(missing_ok=True)
        else:
            work = "training"
            remove_dir(run.folder)
        note = " (the search of validations, too)" if validates_anew else ""
        log(f"{run}: {work} again, changed: {', '.join(parts)}{note}")


def _run_and_log(waiting: Sequence[TrialRun], jobs: int, lock: int, log: Log) -> list[FinishedRun]:
    """Train all, and log the result of each; return those that failed."""
    failed = []
    with tqdm(total=len(waiting), unit="training", disable=not sys.stderr.isatty()) as bar:
        for finished in run_all(waiting, jobs, lock):
            record = read_record(finished.run.folder)
            if finished.exit_code or record is None:
                failed.append(finished)
                log(f"{finished.run}: FAILED, {finished.failure_reason}")
            else:
                scores = ", ".join(f"{name} {result.score('BLEU').value:.2f}" for name, result in record.sets.items())
                log(f"{finished.run}: BLEU {scores} ({finished.seconds:.0f} s)")
            bar.update()
    return failed


def log_failures(failures: Sequence[FinishedRun], log: Log) -> None:
    """Log the trainings that failed, once more at the end."""
    log(f"{plural(len(failures), 'training')} failed:")
    for failure in failures:
        log(f"  {failure.run}: {failure.failure_reason}")


def link_prepared_data(runs: Iterable[TrialRun], fingerprints: ExperimentFingerprints, folder: Path, log: Log) -> None:
    """The prepared data of each run, in the form of `prepare`.

    Raises RunError for a folder with files of others, DataError for text that cannot be used.
    """
    shared: dict[str, Path] = {}
    for run in runs:
        if (run.folder / PREPARED).is_file() or checkpoint_folders(run.folder):  # `train` prepares a trained one again
            continue
        if run.folder.is_dir() and any(run.folder.iterdir()) and not (run.folder / TRIAL_FILE).exists():
            raise RunError(f"{run.folder}: has files that do not belong to a training; give another `folder`")
        experiment = run.experiment
        fingerprint = fingerprints.text_fingerprint(experiment)
        if fingerprint not in shared:
            shared[fingerprint] = folder / "prepared" / fingerprint[:16]
            prepare(experiment.data, experiment.tokenizer, shared[fingerprint], log)
        remove_temporary(run.folder.parent)
        with atomic_dir(run.folder) as partial:
            shutil.copytree(shared[fingerprint], partial, copy_function=_link_or_copy, dirs_exist_ok=True)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copyfile(source, target)


SWEEP_LOG = "sweep.log"


@dataclass(frozen=True)
class FinishedRun:
    """A training whose process has ended."""

    run: TrialRun
    exit_code: int
    seconds: float

    @property
    def failure_reason(self) -> str:
        """Exit code and last output of a training that failed."""
        log = self.run.folder / SWEEP_LOG
        status = f"exit code {self.exit_code}" if self.exit_code >= 0 else f"ended by signal {-self.exit_code}"
        lines = [line for line in log.read_text("utf-8", errors="replace").split("\n") if line.strip()]
        return f"{status}: {lines[-1] if lines else 'no output'} ({log})"


def run_all(runs: Iterable[TrialRun], jobs: int, lock: int) -> Iterator[FinishedRun]:
    """Train all, `jobs` at a time, and yield each as it ends. Closing the iterator ends the remaining processes.

    `lock` is the file descriptor that locks the sweep for as long as one of the processes lives.
    """
    waiting = deque(runs)
    gpus = deque(islice(cycle(_visible_gpus() or [None]), jobs))  # of further trainings
    active: dict[subprocess.Popen[bytes], tuple[TrialRun, float, str | None]] = {}  # run, start time, GPU
    try:
        while waiting or active:
            while waiting and gpus:
                run, gpu = waiting.popleft(), gpus.popleft()
                active[_start(run, jobs, lock, gpu)] = run, time.monotonic(), gpu
            for process in [process for process in active if process.poll() is not None]:
                run, started, gpu = active.pop(process)
                gpus.append(gpu)
                yield FinishedRun(run, process.returncode, time.monotonic() - started)
            time.sleep(0.05)
    finally:
        _end(list(active))


def threads(jobs: int) -> int:
    """Threads of each of `jobs` processes: OMP_NUM_THREADS if set, else an equal share of the CPU cores."""
    setting = os.environ.get("OMP_NUM_THREADS", "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(setting) if setting.isdecimal() else max(1, cores // jobs)


def _visible_gpus() -> list[str | None]:
    """Names of the CUDA devices of this process, in the form of CUDA_VISIBLE_DEVICES."""
    setting = os.environ.get("CUDA_VISIBLE_DEVICES")
    if setting is None:
        return [str(gpu) for gpu in range(torch.cuda.device_count())]
    return [name.strip() for name in setting.split(",") if name.strip()]


def _start(run: TrialRun, jobs: int, lock: int, gpu: str | None) -> subprocess.Popen[bytes]:
    """Start a process in a new session, without Ctrl-C, and with one GPU if there is any."""
    check_locks(run.folder)
    devices = {} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu}
    arguments = [str(run.folder), str(jobs), str(lock), *plugin_modules(run.experiment)]
    with (run.folder / SWEEP_LOG).open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "seq2attn.sweep.worker", *arguments],
            stdin=subprocess.PIPE,  # closed when this process ends, which ends the worker
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment() | {"OMP_NUM_THREADS": str(threads(jobs)), "PYTHONUNBUFFERED": "1"} | devices,
            start_new_session=True,
            pass_fds=[lock],
        )


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + TERMINATE_GRACE_SECONDS
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
