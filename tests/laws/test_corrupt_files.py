"""Corrupt and missing files of a training: they are detected, and the newest valid checkpoint is used."""

import random
import shutil
import subprocess
import sys

import pytest
import torch

import seq2attn
from seq2attn.errors import CorruptFileError, RunError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.lock import lock_directory
from seq2attn.io.weights import load_tensors, save_tensors
from seq2attn.training.checkpoints.averaging import average
from seq2attn.training.checkpoints.checkpoint import checkpoint_folders, list_checkpoints, load_checkpoint
from seq2attn.training.checkpoints.retention import latest_valid_checkpoint, prune
from tests.support.compare_runs import assert_identical
from tests.support.trainings import PLAIN, assert_same, log_of, metrics, train_run, write_corpus

FILES = ("model.safetensors", "optimizer.safetensors", "train_state.json")
SHORT = {**PLAIN, "max_duration": ["6 updates"]}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """The folder of the text of all trainings."""
    return write_corpus(tmp_path_factory.mktemp("corrupt"))


@pytest.fixture(scope="module")
def original(text):
    """A run with checkpoints of updates 3 and 6."""
    return train_run(text, "run", **SHORT)


@pytest.fixture
def run(original, tmp_path):
    """A copy, which `train_run` takes for a run of the text: its path is absolute."""
    return shutil.copytree(original.folder, tmp_path / "copy")


@pytest.mark.parametrize("name", FILES)
def test_flipped_bits_are_detected(original, run, name):
    newest = list_checkpoints(original.folder)[-1]
    path, rng, num_detected = run / "checkpoints" / "00000006" / name, random.Random(name), 0
    content = path.read_bytes()
    for _ in range(30):
        place, bit = rng.randrange(len(content)), 1 << rng.randrange(8)
        path.write_bytes(content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :])
        warnings = []
        checkpoint = latest_valid_checkpoint(run, warnings.append)
        if checkpoint.train_state.update == 6:  # the bit was in white space, or in an unused name
            assert checkpoint.train_state == newest.train_state
            for one, other in zip(load_checkpoint(checkpoint), load_checkpoint(newest), strict=True):
                assert_same(one, other)
        else:
            assert checkpoint.train_state.update == 3
            (warning,) = warnings
            assert str(path.parent) in warning and "00000006.corrupt" in warning
            (run / "checkpoints" / "00000006.corrupt").rename(path.parent)
            num_detected += 1
    assert num_detected >= 25


@pytest.mark.parametrize("name", FILES)
def test_truncated_missing_and_exchanged_files_are_detected(run, name):
    path = run / "checkpoints" / "00000006" / name
    content = path.read_bytes()
    for corrupt in (b"", content[: len(content) // 2], None, (run / "checkpoints" / "00000003" / name).read_bytes()):
        if name == "train_state.json" and corrupt and corrupt != content[: len(content) // 2]:
            continue  # it names other digests, of which each has a test
        path.unlink()
        if corrupt is not None:
            path.write_bytes(corrupt)
        warnings = []
        assert latest_valid_checkpoint(run, warnings.append).train_state.update == 3
        assert name in warnings[0]
        (run / "checkpoints" / "00000006.corrupt").rename(path.parent)
        path.write_bytes(content)


def test_a_training_resumes_from_the_checkpoint_before_a_corrupt_one(text, run, tmp_path):
    whole = train_run(text, tmp_path / "whole", **PLAIN)
    path = run / "checkpoints" / "00000006" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    parts = train_run(text, run, resume=True, **PLAIN)
    assert_identical(whole, parts)
    assert f" # warning: {path}: the weights cannot be read" in log_of(parts)
    assert "renamed to 00000006.corrupt, training resumes after update 3" in log_of(parts)


def test_with_corrupt_checkpoints_only_no_training_starts(text, run):
    for folder in checkpoint_folders(run):
        (folder / "train_state.json").write_text("{")
    for resume in (True, "if-exists"):
        with pytest.raises(RunError, match="no valid checkpoint to resume from") as error:
            train_run(text, run, resume=resume, **PLAIN)
        assert "00000003/train_state.json" in str(error.value) and "00000006/train_state.json" in str(error.value)
        assert "older checkpoint" not in str(error.value)
    with pytest.raises(RunError, match="already contains a training"):
        train_run(text, run, **PLAIN)
    assert len(checkpoint_folders(run)) == 2


def test_a_model_without_checkpoints_is_not_overwritten(text, run):
    shutil.rmtree(run / "checkpoints")
    paths = run / "model.safetensors", run / "config.yaml"
    before = [path.read_bytes() for path in paths]
    for resume in (False, True, "if-exists"):
        with pytest.raises(RunError, match="already contains a model, and no checkpoint to resume"):
            train_run(text, run, resume=resume, **PLAIN)
    assert [path.read_bytes() for path in paths] == before


def test_two_resumable_checkpoints_are_kept(run):
    for keep in (1, 2, 5):
        prune(run, [], keep_last=keep)
        assert [c.optimizer_path.is_file() for c in list_checkpoints(run)] == [True, True]


def corrupt_weights(run):
    path = run / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.unlink()  # it may be mapped into memory
    path.write_bytes(content)
    return path


def test_corrupt_weights_are_refused(run):
    path = corrupt_weights(run)
    with pytest.raises(CorruptFileError):
        load_tensors(path)
    with pytest.raises(CorruptFileError, match=f"{path}: .*; restore them with `seq2attn average {run} --best 1`"):
        seq2attn.load(run)
    path.unlink()
    with pytest.raises(RunError, match=f"{path}: .*; restore them with `seq2attn average {run} --best 1`"):
        seq2attn.load(run)


def test_corrupt_weights_are_restored_by_resuming_or_averaging(text, run):
    run = RunDirectory(run)
    origin, weights, lines = run.weights_origin(), load_tensors(run.weights_path), metrics(run)
    for restore in (
        lambda: train_run(text, run.folder, resume=True, **SHORT),
        lambda: average(run.folder, last=None, best=1),
    ):
        corrupt_weights(run.folder)
        restore()
        assert_same(load_tensors(run.weights_path), weights)
        assert run.weights_origin()["checkpoints"] == origin["checkpoints"]
        assert metrics(run) == lines  # nothing else was done


def test_tensors_of_any_dtype_and_shape_are_stored(tmp_path):
    tensors = {
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(float("-inf")),
        "bfloat16": torch.arange(5, dtype=torch.bfloat16),
        "bool": torch.tensor([True, False]),
        "transposed": torch.arange(6).reshape(2, 3).T,
    }
    digest = save_tensors(tensors, tmp_path / "t")
    assert_same(load_tensors(tmp_path / "t", digest=digest), tensors)
    with pytest.raises(CorruptFileError):
        load_tensors(tmp_path / "t", digest="0" * 64)


def test_a_run_is_locked_until_its_process_ends(run):
    code = "import sys, pathlib, seq2attn.io.lock as l\nwith l.lock_directory(pathlib.Path(sys.argv[1])): input()"
    command = [sys.executable, "-c", code, str(run)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as other:
        while not (run / "run.lock").read_text().startswith(f"process {other.pid} "):
            assert other.poll() is None
        for work in (lambda: lock_directory(run).__enter__(), lambda: average(run, last=1, best=None)):
            with pytest.raises(RunError, match=f"process {other.pid} on "):
                work()
        other.kill()
    with lock_directory(run):
        pass
