"""Exact resume: an interrupted training equals an uninterrupted one in weights, optimizer state and logs."""

import json
import re
import shutil
import time

import pytest

from seq2attn.config.duration import Duration
from seq2attn.errors import TrainingInterrupted
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.weights import load_tensors, save_tensors
from seq2attn.training.checkpoints.averaging import average
from seq2attn.training.checkpoints.checkpoint import checkpoint_folders, list_checkpoints
from seq2attn.training.checkpoints.retention import validated_checkpoints
from seq2attn.training.train import train
from tests.support.compare_runs import assert_identical, run_contents
from tests.support.faults import Slow
from tests.support.marks import slow_but
from tests.support.trainings import (
    BAHDANAU,
    CASES,
    MODELS,
    PLAIN,
    WORD_TOKENIZERS,
    assert_exact_resume,
    assert_same,
    content,
    last_state,
    log_of,
    train_run,
)


def train_in_sessions(folder, run, **options):
    """A training that is interrupted after every update. Returns the run and the number of interruptions."""
    config = ExperimentConfig.model_validate(content(folder, run, **options))
    limited = config.training.model_copy(update={"time_limit": Duration(0.001, "seconds")})
    for count in range(99):
        try:
            train(config.model_copy(update={"training": limited}), resume="if-exists")
        except TrainingInterrupted as stopped:
            assert stopped.exit_code == 75
            assert "saved" in str(stopped)
        else:
            return RunDirectory(config.run_dir), count
    raise AssertionError("no progress")


@pytest.mark.parametrize("name", slow_but(("recurrent, moving average",), CASES))
def test_a_training_interrupted_after_every_update_equals_an_uninterrupted_one(corpus, name):
    options = {"tokenizer": WORD_TOKENIZERS, **PLAIN, **CASES[name]}
    whole = train_run(corpus, "whole", **options)
    parts, count = train_in_sessions(corpus, "parts", **options)
    assert count >= validated_checkpoints(whole.folder)[-1].train_state.update > 4
    assert_identical(whole, parts)
    assert whole.weights_origin() == parts.weights_origin()
    assert [f.name for f in checkpoint_folders(whole.folder)] == [f.name for f in checkpoint_folders(parts.folder)]
    lines = (parts.folder / "train.log").read_text().splitlines()  # of each session how it began and ended
    assert sum(" # stopped by training.time_limit after update " in line for line in lines) == count
    assert sum(" # resuming after update " in line for line in lines) == count
    assert sum(" # starting: " in line for line in lines) == 1


def test_the_time_limit_includes_the_preparation(corpus, monkeypatch):
    monotonic = time.monotonic
    monkeypatch.setattr(Slow, "seconds", 0.0)
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + Slow.seconds)
    model = {**MODELS["recurrent"], "encoder": {"kind": "tests.support.faults:Slow"}}  # built for the check, and again
    with pytest.raises(TrainingInterrupted):
        train_run(corpus, "run", model=model, max_duration=["9 updates"], time_limit="200 seconds")
    assert [c.train_state.update for c in list_checkpoints(corpus / "run")] == [1]


def test_checkpoints_of_interruptions_are_not_ranked_or_averaged(corpus):
    options = {**PLAIN, "checkpoints": {"keep_last": 3, "average": "last"}, "time_limit": "0.001 seconds"}
    kept = []
    for _ in range(8):
        with pytest.raises(TrainingInterrupted):
            train_run(corpus, "run", resume="if-exists", **options)
        checkpoints = list_checkpoints(corpus / "run")
        kept.append([(c.train_state.update, c.is_validated) for c in checkpoints])
    assert kept[1] == [(1, False), (2, False)]
    assert kept[2] == [(3, True)]  # a validation removes the others
    assert kept[4] == [(3, True), (4, False), (5, False)]
    assert kept[7] == [(3, True), (6, True), (7, False), (8, False)]
    assert all(c.optimizer_path.is_file() for c in checkpoints)
    assert str(average(corpus / "run", last=2, best=None)).endswith("00000003, 00000006")


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_each_difference_is_found(corpus):
    one, other = (train_run(corpus, name, **PLAIN) for name in ("one", "other"))
    edit(other.folder / "metrics.jsonl", '"seconds": ', '"gpu_memory_mib": 1, "gpu_reserved_mib": 2, "seconds": ')
    assert_identical(one, other)
    newest = list_checkpoints(other.folder)[-1]
    for path in (newest.model_path, newest.optimizer_path):
        tensors = load_tensors(path)
        name = sorted(tensors)[-1]
        tensors[name] = tensors[name] + 1e-3
        path.unlink()  # it may be mapped into memory
        save_tensors(tensors, path)
    edit(other.folder / "metrics.jsonl", '"update": 4, ', '"update": 5, ')
    edit(other.folder / "train.log", "validation at update 3: loss ", "validation at update 3: loss 1")
    edit(other.folder / "samples.txt", "== update 3", "== update 4")
    contents, others = run_contents(one), run_contents(other)
    differing = [name.partition(":")[0] for name in contents if contents[name] != others[name]]
    assert sorted(differing) == ["metrics", "optimizer", "samples", "train.log", "weights"]


def test_a_model_that_does_not_resume_exactly_is_found(corpus):
    model = {**BAHDANAU, "encoder": {"kind": "tests.support.faults:Forgetful"}}
    with pytest.raises(AssertionError, match="weights: update 12"):
        assert_exact_resume(corpus, 12, model=model)


def test_logs_are_truncated_to_the_checkpoint(corpus):
    whole = train_run(corpus, "whole", **PLAIN)
    parts = train_run(corpus, "parts", **{**PLAIN, "max_duration": ["9 updates"]})
    assert run_contents(whole) != run_contents(parts)
    for name, text in (
        ("metrics.jsonl", json.dumps({"kind": "train", "update": 10, "loss": 1.0}) + '\n{"kind": "tr'),
        ("train.log", "2026-01-01 10:00:00 epoch 1.00  update 10  loss 1.000\n2026-01-01 10:"),
        ("samples.txt", "== update 10\nsource"),
    ):
        with (parts.folder / name).open("a") as file:
            file.write(text)
    parts = train_run(corpus, "parts", resume=True, **PLAIN)
    assert_identical(whole, parts)


def test_weights_of_the_best_checkpoint_are_restored(corpus):
    options = {**PLAIN, "max_duration": ["9 updates"]}
    first = train_run(corpus, "run", **{**options, "max_duration": ["3 updates"]})
    old = first.weights_path.read_bytes()
    best = train_run(corpus, "run", resume=True, **options)
    origin, weights = best.weights_origin(), load_tensors(best.weights_path)
    assert origin["checkpoints"] != ["00000003"]
    best.weights_path.unlink()  # it is mapped into memory
    best.weights_path.write_bytes(old)
    again = train_run(corpus, "run", resume=True, **options)
    assert again.weights_origin() == origin
    assert_same(load_tensors(again.weights_path), weights)


def test_partial_files_are_removed_and_checkpoints_kept(corpus):
    options = {**PLAIN, "checkpoints": {"keep_best": 1}}
    run = train_run(corpus, "run", **{**options, "max_duration": ["6 updates"]})
    folder = run.folder / "checkpoints"
    for name in ("00000009.0a1b2c3d.partial", "00000003.0a1b2c3d.removed"):
        shutil.copytree(folder / "00000006", folder / name)
    (run.folder / "model.safetensors.0a1b2c3d.partial").write_bytes(b"half")
    export = run.folder / "ctranslate2.0a1b2c3d.partial"  # of `export`, which may be running
    export.mkdir()
    mine = run.folder / "download.partial"
    mine.write_bytes(b"of the user")
    train_run(corpus, "run", resume=True, **options)
    assert sorted(path.name for path in folder.iterdir()) == ["00000012", "00000013"]
    assert {*run.folder.glob("*.partial")} == {export, mine}


@pytest.mark.parametrize(
    ("schedule", "limits"),
    [
        ("cosine", ["1000 seconds", "9 epochs"]),
        pytest.param("inverse-sqrt", ["9 hours", "14 updates"], marks=pytest.mark.slow),
    ],
)
def test_a_plan_by_the_speed_is_kept_through_interruptions(corpus, monkeypatch, schedule, limits):
    """The first session plans; a copy of it is trained to the end without a stop, the original with many.

    A clock counts a second for each token; that of later sessions goes four times as fast.
    """
    monotonic, model = time.monotonic, {**BAHDANAU, "encoder": {"kind": "tests.support.faults:Slow", "per_token": 1}}
    monkeypatch.setattr(Slow, "seconds", 0.0)
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + Slow.seconds)
    options = {"tokenizer": WORD_TOKENIZERS, "batch": {"tokens": 64}, "validation": {"metric": "loss"}, "model": model}
    options |= {"lr_schedule": {"kind": schedule}, "report_every": 4, "max_duration": limits}
    with pytest.raises(TrainingInterrupted):
        train_run(corpus, "parts", time_limit="0.001 seconds", **options)
    planned = RunDirectory(corpus / "parts").load_config().training
    shutil.copytree(corpus / "parts", corpus / "whole")
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + 4 * Slow.seconds)
    whole = train_run(corpus, "whole", resume=True, **options)
    start = next(line for line in log_of(whole).splitlines() if "resuming after update" in line)
    left = re.search(r"about [\d.]+ epochs \((\d+) updates, [\d,]+ target tokens/s\) until 20", start)
    done = last_state(RunDirectory(corpus / "parts")).update
    assert (left and int(left[1])) == (planned.lr_schedule.total_updates - done if schedule == "cosine" else None)
    parts, count = train_in_sessions(corpus, "parts", **options)
    assert count > 8
    for run in (whole, parts):
        training = run.load_config().training
        assert (training.lr_schedule, training.validation) == (planned.lr_schedule, planned.validation)
        assert last_state(run).update == (planned.lr_schedule.total_updates if schedule == "cosine" else 14)
    assert last_state(whole).seconds > 2000
    assert_identical(whole, parts)
    train_run(corpus, "parts", resume=True, **{**options, "max_duration": ["9 hours", "20 updates"]})
    assert ("planned anew" in (parts.folder / "train.log").read_text()) and last_state(parts).update == 20
    train_run(corpus, "parts", resume=True, **{**options, "max_duration": ["22 updates"]})  # which needs no plan
    starts = [line for line in log_of(parts).splitlines() if "resuming after update" in line]
    assert "until 20" not in starts[-1] and last_state(parts).planned_updates is None
