"""A training that is interrupted anywhere is the one that was not: weights, optimiser, and all that it told."""

from __future__ import annotations

import json
import shutil

import pytest

from seq2attn.config.duration import Duration
from seq2attn.diagnostics.compare_runs import compare_runs, format_comparison_table
from seq2attn.errors import RunError, TrainingInterrupted
from seq2attn.experiment import ExperimentConfig
from seq2attn.io.weights import load_tensors
from seq2attn.run_directory import RunDirectory
from seq2attn.training.checkpoints.averaging import average_run
from seq2attn.training.checkpoints.checkpoint import checkpoint_folders, list_checkpoints
from seq2attn.training.checkpoints.retention import validated_checkpoints
from seq2attn.training.metrics_logger import TIMING_METRICS
from seq2attn.training.train import train
from tests.laws.small import BPE_DROPOUT, MODELS, WORD_TOKENIZERS, assert_same, content, corpus, trained

__all__ = ["corpus"]  # a fixture

LAST = {"keep_last": 2, "keep_best": 2, "average": "last"}
BEST = {"keep_last": 1, "keep_best": 2, "average": "best"}
PLATEAU = {"kind": "plateau", "factor": 0.5, "patience": 1}
FAST = {"optimizer": {"kind": "adam", "lr": 0.3}}  # too fast, so that it gets worse now and then

CASES = {
    "recurrent": {"model": MODELS["recurrent"], "checkpoints": LAST, "lr_schedule": {"kind": "inverse-sqrt"}},
    "transformer": {"model": MODELS["transformer"], "checkpoints": BEST, "lr_schedule": PLATEAU, **FAST},
    "hard": {"model": MODELS["hard"], "validation": {"every": "5 updates", "metric": "loss"}},
    "cut anew": {
        "model": MODELS["transformer"],
        "tokenizer": BPE_DROPOUT,
        "batch": {"tokens": 150, "micro_batch_tokens": 50},
    },
    "adadelta": {"optimizer": {"kind": "adadelta"}, "report_every": 1, "batch": {"tokens": "auto"}},
    "momentum": {
        "optimizer": {"kind": "sgd", "lr": 0.1, "momentum": 0.9},
        "batch": {"gradient_accumulation": 2},
    },
    "early stop": {"validation": {"every": "2 updates", "metric": "loss", "patience": 2}, **FAST},
}
PLAIN = {
    "max_duration": ["13 updates"],
    "report_every": 4,
    "batch": {"tokens": 64},
    "validation": {"every": "3 updates", "metric": "loss"},
}


def assert_identical(one, other):
    rows = compare_runs(one, other)
    assert all(row.is_identical for row in rows), format_comparison_table(rows)
    assert all(row.num_items for row in rows[:5])


def sittings(folder, run, **options):
    """Train, and stop after every update, until there is nothing left to stop."""
    config = ExperimentConfig.model_validate(content(folder, run, **options))
    hasty = config.training.model_copy(update={"time_limit": Duration(0.001, "seconds")})
    for count in range(99):
        try:
            train(config.model_copy(update={"training": hasty}), resume="if-exists")
        except TrainingInterrupted as stopped:
            assert stopped.exit_code == 75
            assert "saved" in str(stopped)
        else:
            return RunDirectory(config.run_dir), count
    raise AssertionError("it does not get on")


@pytest.mark.parametrize("name", CASES)
def test_stopped_after_every_update_is_never_stopped(corpus, name):
    options = {"tokenizer": WORD_TOKENIZERS, **PLAIN, **CASES[name]}
    whole = trained(corpus, "whole", **options)
    parts, count = sittings(corpus, "parts", **options)
    assert count >= validated_checkpoints(whole.folder)[-1].train_state.update > 4
    assert_identical(whole, parts)
    assert whole.weights_origin() == parts.weights_origin()
    assert [f.name for f in checkpoint_folders(whole.folder)] == [f.name for f in checkpoint_folders(parts.folder)]
    lines = (parts.folder / "train.log").read_text().splitlines()  # of each sitting how it began and ended
    assert sum(" # stopped by training.time_limit after update " in line for line in lines) == count
    assert sum(" # resuming after update " in line for line in lines) == count
    assert sum(" # starting: " in line for line in lines) == 1


def test_where_it_was_interrupted_counts_for_nothing(corpus):
    options = {**PLAIN, "checkpoints": {"keep_last": 3, "average": "last"}}
    config = ExperimentConfig.model_validate(content(corpus, "run", **options))
    hasty = config.training.model_copy(update={"time_limit": Duration(0.001, "seconds")})
    kept = []
    for _ in range(8):
        with pytest.raises(TrainingInterrupted):
            train(config.model_copy(update={"training": hasty}), resume="if-exists")
        kept.append([(c.train_state.update, c.is_validated) for c in list_checkpoints(config.run_dir)])
    assert kept[1] == [(1, False), (2, False)]
    assert kept[2] == [(3, True)]  # validated, with which the others went
    assert kept[4] == [(3, True), (4, False), (5, False)]
    assert kept[7] == [(3, True), (6, True), (7, False), (8, False)]
    assert all(c.optimizer_path.is_file() for c in list_checkpoints(config.run_dir))
    assert average_run(config.run_dir, last=2, best=None).endswith("00000003, 00000006")


def test_what_was_not_reported_yet_is_reported_later(corpus):
    options = {
        **PLAIN,
        "max_duration": ["6 updates"],
        "validation": {"every": "6 updates"},
        "report_every": 6,
    }
    run, _ = sittings(corpus, "run", **options)
    whole = trained(corpus, "whole", **options)
    (ours,), (theirs,) = (
        [json.loads(line) for line in r.metrics_path.read_text().splitlines() if '"train"' in line]
        for r in (run, whole)
    )
    assert {k: v for k, v in ours.items() if k not in TIMING_METRICS} == {
        k: v for k, v in theirs.items() if k not in TIMING_METRICS
    }
    assert ours["target_tokens"] == sum(c.train_state.target_tokens for c in list_checkpoints(run.folder)[-1:])


# ---------------------------------------------------------------------- what a kill leaves


def test_a_log_that_goes_on_past_the_checkpoint_is_cut_back(corpus):
    whole = trained(corpus, "whole", **PLAIN)
    parts = trained(corpus, "parts", **{**PLAIN, "max_duration": ["9 updates"]})
    assert not all(row.is_identical for row in compare_runs(whole, parts))
    with parts.metrics_path.open("a") as file:  # as a kill leaves them, after the tenth update
        file.write(json.dumps({"kind": "train", "update": 10, "loss": 1.0}) + '\n{"kind": "tr')
    with (parts.folder / "train.log").open("a") as file:
        file.write("2026-01-01 10:00:00 epoch 1.00  update 10  loss 1.000\n2026-01-01 10:")
    with (parts.folder / "samples.txt").open("a") as file:
        file.write("== update 10\nsource")
    parts = trained(corpus, "parts", resume=True, **PLAIN)
    assert_identical(whole, parts)


def test_weights_that_a_kill_kept_from_being_written_are_written(corpus):
    options = {**PLAIN, "max_duration": ["9 updates"]}
    first = trained(corpus, "run", **{**options, "max_duration": ["3 updates"]})
    old = {path: path.read_bytes() for path in (first.weights_path, first.weights_info_path)}
    best = trained(corpus, "run", resume=True, **options)
    origin, weights = best.weights_origin(), load_tensors(best.weights_path)
    assert origin["checkpoints"] != ["00000003"]
    for path, text in old.items():
        path.unlink()  # the tensors are those of the file, which is mapped
        path.write_bytes(text)
    again = trained(corpus, "run", resume=True, **options)
    assert again.weights_origin() == origin
    assert_same(load_tensors(again.weights_path), weights)
    again.weights_info_path.write_bytes(old[first.weights_info_path])  # killed between the two
    assert again.weights_origin() == origin
    trained(corpus, "run", resume=True, **options)
    assert json.loads(again.weights_info_path.read_text())["origin"] == origin


def test_leftovers_are_cleared_and_checkpoints_kept(corpus):
    options = {**PLAIN, "checkpoints": {"keep_best": 1}}
    run = trained(corpus, "run", **{**options, "max_duration": ["6 updates"]})
    folder = run.folder / "checkpoints"
    for name in ("00000009.partial", "00000003.removed"):
        shutil.copytree(folder / "00000006", folder / name)
    (run.folder / "model.safetensors.partial").write_bytes(b"half")
    trained(corpus, "run", resume=True, **options)
    assert sorted(path.name for path in folder.iterdir()) == ["00000012", "00000013"]
    assert not list(run.folder.glob("*.partial"))


def test_auto_begins_or_goes_on(corpus):
    with pytest.raises(RunError, match="no checkpoint to resume"):
        trained(corpus, "run", resume=True, **PLAIN)
    whole = trained(corpus, "whole", **PLAIN)
    trained(corpus, "run", resume="if-exists", **{**PLAIN, "max_duration": ["6 updates"]})
    with pytest.raises(RunError, match="already contains a training"):
        trained(corpus, "run", **PLAIN)
    assert_identical(whole, trained(corpus, "run", resume="if-exists", **PLAIN))
