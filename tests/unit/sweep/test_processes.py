"""Processes of a sweep: GPUs, threads, reasons of failures, the end of the sweep, and the search of a trial."""

import json
import multiprocessing
import os
import signal
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from seq2attn.config.base import Config
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.sweep.record import write_trial
from seq2attn.sweep.run_sweep import SWEEP_LOG, run_all
from seq2attn.sweep.worker import _end_with_the_sweep, run_trial
from tests.support.trainings import content


@dataclass(frozen=True)
class Run:
    """The part of a TrialRun that processes need."""

    folder: Path
    experiment: Config = field(default_factory=Config)


@pytest.mark.parametrize(("gpus", "expected"), [("3,GPU-5", {"3": 2, "GPU-5": 2}), ("", {"": 4})], ids=str)
def test_gpus_are_assigned_in_turn(tmp_path, monkeypatch, gpus, expected):
    # Instead of Python: prints its GPU when all four run.
    script = tmp_path / "script"
    script.write_text(f'#!/bin/sh\necho "GPU $CUDA_VISIBLE_DEVICES"\ntouch "$3.on"\n'
                      f'while [ $(ls {tmp_path} | grep -c .on) -lt 4 ]; do sleep 0.01; done\n')  # fmt: skip
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus)
    runs = [Run(tmp_path / str(number)) for number in range(4)]
    for run in runs:
        run.folder.mkdir()
    read, _ = os.pipe()
    assert [one.exit_code for one in run_all(runs, 4, read)] == [0] * 4
    assert Counter((run.folder / SWEEP_LOG).read_text().removeprefix("GPU").strip() for run in runs) == expected


@pytest.mark.parametrize(("setting", "cores", "jobs", "threads"), [
    (None, 8, 1, 8), (None, 8, 2, 4), (None, 8, 3, 2), (None, 2, 4, 1), ("3", 8, 2, 3), ("", 8, 2, 4),
])  # fmt: skip
def test_threads_are_shared_by_the_trainings(tmp_path, monkeypatch, setting, cores, jobs, threads):
    """Other tests set OMP_NUM_THREADS."""
    script = tmp_path / "script"
    script.write_text('#!/bin/sh\necho "$OMP_NUM_THREADS"\n')
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {*range(cores)}, raising=False)
    if setting is None:
        monkeypatch.delenv("OMP_NUM_THREADS")
    else:
        monkeypatch.setenv("OMP_NUM_THREADS", setting)
    read, _ = os.pipe()
    assert [one.exit_code for one in run_all([Run(tmp_path)], jobs, read)] == [0]
    assert (tmp_path / SWEEP_LOG).read_text().split() == [str(threads)]


def test_the_reason_of_a_failure_is_that_of_the_last_session(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "false")  # fails without a word
    (tmp_path / SWEEP_LOG).write_text("error: no space\n")
    read, _ = os.pipe()
    (failed,) = run_all([Run(tmp_path)], 1, read)
    assert failed.failure_reason == f"exit code 1: no output ({tmp_path / SWEEP_LOG})"


def test_a_training_whose_sweep_has_ended_is_ended_by_sigterm():
    """Training saves a checkpoint then."""
    read, write = os.pipe()

    def wait_for_the_end():
        os.close(write)
        os.dup2(read, 0)
        _end_with_the_sweep()

    process = multiprocessing.get_context("fork").Process(target=wait_for_the_end)
    process.start()
    os.close(read)
    assert process.is_alive()
    os.close(write)
    process.join()
    assert process.exitcode == -signal.SIGTERM


class Trial:
    def __init__(self, folder, experiment):
        self.folder, self.experiment = folder, experiment


def test_the_search_of_a_trial_is_that_of_its_run(corpus):
    for name in ("train", "dev"):
        text = (corpus / f"{name}.tgt").read_text().split("\n")
        (corpus / f"{name}.tgt").write_text("\n".join(" ".join(3 * word for word in line.split()) for line in text))
    tokenizer = {"source": {"kind": "words"}, "target": {"kind": "characters"}}
    values = content(corpus, "run", tokenizer=tokenizer, max_duration=["2 epochs"], batch={"tokens": 1000})
    values["data"]["test"] = {"dev": values["data"]["dev"]}
    write_trial(Trial(corpus / "run", ExperimentConfig.model_validate(values)), {})
    training = run_trial(corpus / "run", 1).training
    assert training.epochs == 2 < training.updates
    report = json.loads((corpus / "run/evaluation/dev.json").read_text())
    assert report["search"]["lengths"]["max_length_ratio"] > 3
