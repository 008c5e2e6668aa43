"""Failing and full disks, read-only folders, two trainings at once: errors of one line, and no checkpoint is lost."""

from __future__ import annotations

import shutil
import signal

import pytest

from seq2attn.training.checkpoints.checkpoint import list_checkpoints
from tests.forked import Command
from tests.home import OFTEN, Home, assert_valid, has_reported, slow_to_validate
from tests.laws.test_interrupted import assert_identical


@pytest.fixture
def home(corpus):
    return Home(corpus, **OFTEN)


@pytest.mark.parametrize("call", ["fsync", pytest.param("rename", marks=pytest.mark.slow), "space"])
def test_a_failing_disk_costs_no_checkpoint(home, call):
    assert home.train("whole")[0] == 0
    failures = 0
    for since in (3, 33, 47):
        name = f"parts-{since}"
        code, output = home.train(name, fault=(call, since))
        assert "Traceback" not in output and "Logging error" not in output, output
        if code == 0:
            break
        failures += 1
        assert code == 2 and output.rstrip().split("\n")[-1].startswith("error: "), output
        run = home.run(name)
        assert not list(run.folder.rglob("*.partial"))
        if list_checkpoints(run.folder):
            assert_valid(run)
        if since == 33:
            assert home.train(name, "--resume-if-exists")[0] == 0
            assert_identical(home.run("whole"), run)
        shutil.rmtree(run.folder)
    assert failures >= 3


def test_a_second_training_in_one_folder_is_refused(corpus):
    home = slow_to_validate(corpus)
    running = home.start("run")
    assert running.until(has_reported(home.run("run"), 2))
    for words in (("train", "--resume-if-exists"), ("prepare",)):
        code, output = Command(*words, home.folder / "run.yaml", log=home.folder / "second.txt").finish()
        assert code == 2
        assert f"process {running.process.pid} on " in output and "is at work in it" in output
    running.send(signal.SIGKILL)
    running.wait()
    code, output = home.train("run", "--resume-if-exists", max_duration=["1 update"], validation=OFTEN["validation"])
    assert code == 0, output


def test_a_folder_that_cannot_be_created(home):
    (home.folder / "file").write_text("")
    code, output = home.train("run", at="file/run")
    assert code == 2 and "cannot be written to (Not a directory)" in output and "Traceback" not in output
