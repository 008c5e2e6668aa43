"""Damaged, forged and missing files of a training: each is known for what it is, and the newest sound one is used."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys

import pytest
import torch

from seq2attn.errors import CorruptFileError, RunError
from seq2attn.inference.translator import Translator
from seq2attn.io.lock import lock_directory
from seq2attn.io.weights import load_tensors
from seq2attn.training.checkpoints.averaging import average_run
from seq2attn.training.checkpoints.checkpoint import checkpoint_folders, list_checkpoints, load_checkpoint
from seq2attn.training.checkpoints.retention import latest_valid_checkpoint, prune
from tests.laws.small import assert_same, corpus, trained
from tests.laws.test_interrupted import PLAIN, assert_identical

__all__ = ["corpus"]  # a fixture

FILES = ("model.safetensors", "optimizer.safetensors", "train_state.json")
SHORT = {**PLAIN, "max_duration": ["6 updates"]}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run with two checkpoints, and what the newer one holds."""
    home = tmp_path_factory.mktemp("damage")
    run = trained(corpus.__wrapped__(home), "run", **SHORT)
    newest = list_checkpoints(run.folder)[-1]
    return run, newest, load_checkpoint(newest)


@pytest.fixture
def run(made, tmp_path):
    """A copy of it, to be damaged."""
    return shutil.copytree(made[0].folder, tmp_path / "copy")


def flips(size, count, seed):
    draw = random.Random(seed)
    return [(draw.randrange(size), 1 << draw.randrange(8)) for _ in range(count)]


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_anywhere_is_seen(made, run, name):
    _, newest, content = made
    path = run / "checkpoints" / "00000006" / name
    whole, seen = path.read_bytes(), 0
    for place, bit in flips(len(whole), 30, name):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        warnings = []
        found = latest_valid_checkpoint(run, warnings.append)
        if found.train_state.update == 6:  # the bit was in a space, or in the name of what says nothing
            assert found.train_state == newest.train_state and found.optimizer_scalars == newest.optimizer_scalars
            for one, other in zip(load_checkpoint(found), content, strict=True):
                assert_same(one, other)
        else:
            assert found.train_state.update == 3
            assert len(warnings) == 1 and str(path.parent) in warnings[0] and "00000006.corrupt" in warnings[0]
            (run / "checkpoints" / "00000006.corrupt").rename(path.parent)
            seen += 1
    assert seen >= 25


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("share", [0, 0.5, None])
def test_a_torn_file_is_seen(run, name, share):
    path = run / "checkpoints" / "00000006" / name
    if share is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    warnings = []
    assert latest_valid_checkpoint(run, warnings.append).train_state.update == 3
    assert name in warnings[0]


def test_files_of_two_checkpoints_are_none(run):
    for name in FILES[:2]:
        copy = shutil.copytree(run, run.parent / f"{name}.run")
        shutil.copy(copy / "checkpoints" / "00000003" / name, copy / "checkpoints" / "00000006" / name)
        assert latest_valid_checkpoint(copy, lambda warning: None).train_state.update == 3


def test_a_training_with_a_damaged_checkpoint_goes_on_from_the_one_before(corpus):
    whole = trained(corpus, "whole", **PLAIN)
    parts = trained(corpus, "parts", **SHORT)
    path = parts.folder / "checkpoints" / "00000006" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    parts = trained(corpus, "parts", resume=True, **PLAIN)
    assert_identical(whole, parts)
    log = (parts.folder / "train.log").read_text()
    assert f" # warning: {path}: the weights cannot be read" in log
    assert "renamed to 00000006.corrupt, training resumes after update 3" in log


def test_where_all_is_damaged_nothing_is_begun_anew(corpus):
    run = trained(corpus, "run", **SHORT)
    for folder in checkpoint_folders(run.folder):
        (folder / "train_state.json").write_text("{")
    for resume in (True, "if-exists"):
        with pytest.raises(RunError, match="no valid checkpoint to resume from") as error:
            trained(corpus, "run", resume=resume, **PLAIN)
        assert "00000003/train_state.json" in str(error.value) and "00000006/train_state.json" in str(error.value)
    with pytest.raises(RunError, match="already contains a training"):
        trained(corpus, "run", **PLAIN)
    assert len(checkpoint_folders(run.folder)) == 2


def test_two_to_go_on_from_are_always_left(run):
    for keep in (1, 2, 5):
        prune(run, [], keep_last=keep)
        assert [c.optimizer_path.is_file() for c in list_checkpoints(run)] == [True, True]


# ---------------------------------------------------------------------- the weights that translate


def damaged_weights(run):
    path = run / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.unlink()  # tensors that were loaded are those of the file, which is mapped
    path.write_bytes(content)
    return path


def test_damaged_weights_are_taken_from_their_checkpoint(run, caplog):
    lines = ["ba be", "ki mo ful"]
    before = [t.text for t in Translator.load(run).translate(lines)]
    path = damaged_weights(run)
    with pytest.raises(CorruptFileError):
        load_tensors(path)
    assert [t.text for t in Translator.load(run).translate(lines)] == before
    (warning,) = caplog.messages
    assert str(path) in warning and "checkpoints/" in warning
    shutil.rmtree(run / "checkpoints" / json.loads((run / "weights.json").read_text())["origin"]["checkpoints"][0])
    with pytest.raises(RunError, match="seq2attn average"):
        Translator.load(run)


def test_damaged_weights_are_mended_by_going_on_or_averaging(corpus):
    run = trained(corpus, "run", **SHORT)
    origin, weights = run.weights_origin(), load_tensors(run.weights_path)
    for mend in (
        lambda: trained(corpus, "run", resume=True, **SHORT),
        lambda: average_run(run.folder, last=None, best=1),
    ):
        damaged_weights(run.folder)
        mend()
        assert_same(load_tensors(run.weights_path), weights)
        assert run.weights_origin()["checkpoints"] == origin["checkpoints"]


# ---------------------------------------------------------------------- one process a run


def test_a_run_is_one_processs(run):
    code = "import sys, pathlib, seq2attn.io.lock as l\nwith l.lock_directory(pathlib.Path(sys.argv[1])): input()"
    command = [sys.executable, "-c", code, str(run)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as other:
        while not (run / "run.lock").read_text().startswith(f"process {other.pid} "):
            assert other.poll() is None
        for work in (lambda: lock_directory(run).__enter__(), lambda: average_run(run, last=1, best=None)):
            with pytest.raises(RunError, match=f"process {other.pid} on .* is at work in it"):
                work()
        other.kill()
    with lock_directory(run):  # gone with it
        pass


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(RunError, match="cannot be written to"),
        lock_directory(tmp_path / "file" / "run"),
    ):
        pass


def test_numbers_of_any_size_and_kind_come_back(tmp_path):
    from seq2attn.io.weights import save_tensors

    tensors = {
        "none": torch.zeros(0, 3),
        "one": torch.tensor(float("-inf")),
        "half": torch.arange(5, dtype=torch.bfloat16),
        "flag": torch.tensor([True, False]),
        "turned": torch.arange(6).reshape(2, 3).T,
    }
    digest = save_tensors(tensors, tmp_path / "t")
    assert_same(load_tensors(tmp_path / "t", digest=digest), tensors)
    with pytest.raises(CorruptFileError):
        load_tensors(tmp_path / "t", digest="0" * 64)
