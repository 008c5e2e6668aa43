"""Disks that fail, folders that cannot be written, two trainings at once: an error of one line, and nothing is lost."""

from __future__ import annotations

import shutil
import signal
import subprocess

import pytest

from seq2attn.run_directory import RunDirectory
from seq2attn.training.checkpoints.checkpoint import list_checkpoints
from tests.forked import command
from tests.home import OFTEN, Home, assert_sound, has_reported, slow_to_validate
from tests.laws.small import corpus
from tests.laws.test_interrupted import assert_identical

__all__ = ["corpus"]  # a fixture


@pytest.fixture
def home(corpus):
    return Home(corpus, **OFTEN)


@pytest.mark.parametrize("what", ["fsync", pytest.param("rename", marks=pytest.mark.slow), "space"])
def test_a_disk_that_fails_costs_no_checkpoint(home, what):
    assert home.train("whole")[0] == 0
    failures = 0
    for since in (3, 33, 47):
        name = f"parts-{what}-{since}"
        code, said = home.train(name, fault=(what, since))
        assert "Traceback" not in said and "Logging error" not in said, said
        if code == 0:
            break
        failures += 1
        assert code == 2 and said.rstrip().split("\n")[-1].startswith("error: "), said
        run = home.run(name)
        if list_checkpoints(run.folder):
            assert_sound(run)
        if since == 33:
            assert home.train(name, "--resume-if-exists")[0] == 0
            assert_identical(home.run("whole"), run)
            assert not list(run.folder.rglob("*.partial"))
        shutil.rmtree(run.folder)
    assert failures >= 3


def test_a_full_disk_costs_no_checkpoint(home, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("may not mount a small disk")
    try:
        options = {"at": disk / "run", "checkpoints": {"keep_last": 99}}
        code, said = home.train("full", **{**options, "max_duration": ["99 updates"]})
        assert code == 2 and "Traceback" not in said, said
        assert "No space left on device" in said or "os error 28" in said
        run = RunDirectory(disk / "run")
        assert_sound(run)
        assert not list(run.folder.rglob("*.partial"))
        done = list_checkpoints(run.folder)[-1].train_state.update
        assert home.train("whole", **{**options, "at": "whole", "max_duration": [f"{done + 3} updates"]})[0] == 0
        subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
        code, said = home.train("full", "--resume", **{**options, "max_duration": [f"{done + 3} updates"]})
        assert code == 0, said
        assert_identical(home.run("whole"), run)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_two_trainings_in_one_folder(corpus):
    home = slow_to_validate(corpus)
    running = home.start("run")
    assert running.until(has_reported(home.run("run"), 2))
    for more in ([], ["--resume"], ["--resume-if-exists"]):
        code, said = command("train", home.folder / "run.yaml", *more, log=home.folder / "second.txt")
        assert code == 2
        assert f"process {running.process.pid} on " in said and "is at work in it" in said
    code, said = command("prepare", home.folder / "run.yaml", log=home.folder / "second.txt")
    assert code == 2 and "is at work in it" in said
    running.send(signal.SIGKILL)
    running.wait()
    code, said = home.train("run", "--resume-if-exists", max_duration=["1 update"])
    assert code == 0, said


def test_a_folder_that_cannot_be_made(home):
    (home.folder / "file").write_text("")
    code, said = home.train("run", at="file/run")
    assert code == 2 and "cannot be written to (Not a directory)" in said and "Traceback" not in said


def test_resume_needs_a_checkpoint_unless_it_is_if_one_exists(home):
    config = home.config("run", max_duration=["2 updates"])
    for code, words in [
        (2, ["train", config, "--resume"]),
        (2, ["train", "--resume", config]),
        (0, ["train", "--resume-if-exists", config]),
        (0, ["train", "--resume", config]),
        (0, ["train", config, "--resume-if-exists"]),
        (2, ["train", config, "--resume", "--resume-if-exists"]),
        (2, ["train", config]),
    ]:
        found, said = command(*words, log=home.folder / "said.txt")
        assert found == code, (words, said)
