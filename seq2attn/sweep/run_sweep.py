"""A sweep from its file to its leaderboard; started again, it goes on where it was stopped."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict

from tqdm import tqdm

from seq2attn.data.train_tokenizers import Log
from seq2attn.errors import RunError
from seq2attn.io.files import write_bytes, write_json
from seq2attn.io.format_version import FORMAT_VERSION
from seq2attn.io.lock import lock_directory
from seq2attn.io.tables import format_table
from seq2attn.models.summary import build_on_meta_device, count_parameters
from seq2attn.sweep.html_page import leaderboard_html
from seq2attn.sweep.leaderboard import build_leaderboard
from seq2attn.sweep.markdown import as_markdown
from seq2attn.sweep.plan import SweepPlan, TrialRun
from seq2attn.sweep.processes import FinishedRun, run_all, threads
from seq2attn.sweep.record import (
    RESULT_FILE,
    TRAINED,
    ExperimentFingerprints,
    changed_parts,
    read_record,
    write_trial,
)
from seq2attn.sweep.shared_data import link_prepared_data

MEASURING = {"test sets", "search"}
"""Parts of a config that training does not depend on."""


LOCK_TIMEOUT = 5.0
"""Seconds in which the trainings of a sweep that was killed have surely seen that it is gone."""


def run_sweep(plan: SweepPlan, jobs: int, log: Log, *, redo: bool = False) -> list[FinishedRun]:
    """Train and measure all that is not finished yet; those that failed.

    Trainings whose config has changed since are refused, or with `redo` done anew.
    """
    folder = plan.sweep.folder
    with lock_directory(folder, "sweep.lock", advice="give another `folder`", timeout=LOCK_TIMEOUT) as lock:
        identities = ExperimentFingerprints()
        fingerprints = {str(training): identities.fingerprint(training.experiment) for training in plan.runs}
        _settle_changes(plan, fingerprints, redo, log)
        waiting = [training for training in plan.runs if read_record(training.folder) is None]
        done = len(plan.runs) - len(waiting)
        log(
            f"{len(plan.trials)} trials x {len(plan.sweep.seeds)} seeds: {done} trainings are finished,"
            f" {len(waiting)} to go; {jobs} side by side, threads each: {threads(jobs)}"
        )
        link_prepared_data(waiting, identities, folder, log)
        for training in waiting:
            write_trial(training, fingerprints[str(training)])
        return _watch(waiting, jobs, lock, log)


def write_leaderboard(plan: SweepPlan, log: Log) -> str:
    """Write the leaderboard of what is finished as Markdown, JSON and HTML; its Markdown."""
    log(f"comparing with the baseline, {plan.baseline.name}")
    board = build_leaderboard(plan)
    folder, markdown = plan.sweep.folder, as_markdown(board)
    write_bytes(folder / "leaderboard.md", markdown.encode())
    write_json(
        folder / "leaderboard.json",
        {"format": FORMAT_VERSION, **asdict(board), "conditions": board.conditions},
    )
    write_bytes(folder / "leaderboard.html", leaderboard_html(board).encode())
    log(f"leaderboard: {folder / 'leaderboard.html'} (and .md, .json)")
    return markdown


def describe_plan(plan: SweepPlan) -> str:
    """The trials with the sizes of their models, and how far each is."""
    rows = [("trial", "parameters", "finished", "")]
    for trial in plan.trials:
        size = count_parameters(build_on_meta_device(trial.experiment.model, trial.experiment.tokenizer))
        records = [read_record(training.folder) for training in trial.runs(plan.sweep.seeds)]
        done = sum(record is not None for record in records)
        mark = "baseline" if trial is plan.baseline else ""
        rows.append((trial.name, f"{size:,}", f"{done}/{len(records)}", mark))
    return f"{format_table(rows)}\n{len(plan.trials)} trials x {len(plan.sweep.seeds)} seeds (parameters at most)"


def _settle_changes(plan: SweepPlan, fingerprints: dict[str, dict[str, object]], redo: bool, log: Log) -> None:
    others = {str(t): (t, parts) for t in plan.runs if (parts := changed_parts(t, fingerprints[str(t)]))}
    if others and not redo:
        some = [f"{name} ({', '.join(parts)})" for name, (_, parts) in list(others.items())[:5]]
        more = f" and {len(others) - 5} more" if len(others) > 5 else ""
        raise RunError(
            f"{plan.sweep.folder}: holds trainings of another config or text: {', '.join(some)}{more};"
            " do them anew by --redo, or give another `folder`"
        )
    for name, (training, parts) in others.items():
        is_trained_alike = {*parts} <= MEASURING and (training.folder / RESULT_FILE).is_file()
        log(f"{name}: {'measured' if is_trained_alike else 'trained'} anew, since changed: {', '.join(parts)}")
        if is_trained_alike:
            (training.folder / RESULT_FILE).rename(training.folder / TRAINED)
        else:
            _forget(training)


def _forget(training: TrialRun) -> None:
    """Remove a run, its result first."""
    going = training.folder.with_name(training.folder.name + ".removed")
    shutil.rmtree(going, ignore_errors=True)
    training.folder.rename(going)
    shutil.rmtree(going)


def _watch(waiting: Sequence[TrialRun], jobs: int, lock: int, log: Log) -> list[FinishedRun]:
    """Train, and tell of each training as it ends; those that failed."""
    failed = []
    with tqdm(total=len(waiting), unit="training", disable=not sys.stderr.isatty()) as bar:
        for ended in run_all(waiting, jobs, lock):
            record = read_record(ended.training.folder)
            if ended.exit_code or record is None:
                failed.append(ended)
                log(f"{ended.training}: FAILED, {ended.failure_reason}")
            else:
                scores = ", ".join(f"{name} {m.score('BLEU').value:.2f}" for name, m in record.sets.items())
                log(f"{ended.training}: BLEU {scores} ({ended.seconds:.0f} s)")
            bar.update()
    return failed
