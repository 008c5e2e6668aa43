"""Trainings in processes of their own, killed, stopped and starved at any instant: what is left is sound, and going on
ends where the undisturbed training ends."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time

import pytest
import yaml

from seq2attn.run import Run
from seq2attn.training.checkpoint import list_checkpoints, load_checkpoint
from seq2attn.training.kept import newest_sound
from tests.forked import Command, command
from tests.laws.small import MODELS, content, corpus
from tests.laws.test_interrupted import CASES, PLAIN, assert_identical

__all__ = ["corpus"]  # a fixture

OFTEN = {
    **PLAIN,
    "until": ["14 updates"],
    "validation": {"every": "2 updates", "metric": "loss"},
    "report_every": 3,
}


class Home:
    """A folder with a text, and trainings of it."""

    def __init__(self, folder, **options):
        self.folder, self.options = folder, options

    def config(self, run, *, at=None, **options):
        path = self.folder / f"{run}.yaml"
        path.write_text(yaml.safe_dump(content(self.folder, at or run, **{**self.options, **options})))
        return path

    def start(self, run, *more, fault=None, **options):
        return Command(
            "train", self.config(run, **options), *more, log=self.folder / f"{run}.txt", fault=fault
        )

    def train(self, run, *more, fault=None, **options):
        running = self.start(run, *more, fault=fault, **options)
        return running.wait(), running.said()

    def run(self, name):
        return Run(self.folder / name)


@pytest.fixture
def home(corpus):
    return Home(corpus, **OFTEN)


def is_saving(run):
    return lambda: any((run.folder / "checkpoints").glob("*.partial"))


def has_reported(run, update):
    return lambda: run.metrics.is_file() and f'"update": {update},' in run.metrics.read_text()


def assert_sound(run):
    """Whatever the instant: what is there is whole, and the newest checkpoint can be gone on from without a warning."""
    newest = newest_sound(run.folder, pytest.fail)
    for checkpoint in list_checkpoints(run.folder)[-1:]:
        load_checkpoint(checkpoint)
        assert checkpoint.state == newest.state
    if run.weights.is_file():
        run.model()


# ---------------------------------------------------------------------- SIGKILL


@pytest.mark.parametrize("name", ["recurrent", "transformer", "drawing"])
def test_killed_at_any_instant_and_resumed_is_never_killed(corpus, name):
    home, draw = Home(corpus, **{**CASES[name], **OFTEN}), random.Random(name)
    assert home.train("whole")[0] == 0
    whole, parts, kills, rounds = home.run("whole"), home.run("parts"), 0, 0
    while kills < 9 or rounds == 0:
        running = home.start("parts", "--resume", "auto")
        if kills % 3 == 2:
            running.until(is_saving(parts))
        time.sleep(draw.random() * (0.6, 0.2, 0.003)[kills % 3])
        running.send(signal.SIGKILL)
        if running.wait() == 0:  # it was over before
            assert_identical(whole, parts)
            shutil.rmtree(parts.folder)
            rounds += 1
            continue
        kills += 1
        if (parts.folder / "config.yaml").is_file():
            assert_sound(parts)
        if kills >= 9:
            assert home.train("parts", "--resume", "auto")[0] == 0
            assert_identical(whole, parts)
            rounds += 1


# ---------------------------------------------------------------------- SIGTERM, SIGINT, and a time limit


def test_terminated_in_every_phase(home):
    home.options |= {"until": ["60 updates"]}
    assert home.train("whole")[0] == 0
    run, codes = home.run("parts"), {}

    def end(phase, moment, number=signal.SIGTERM):
        before, running = size(), home.start("parts", "--resume", "auto")
        assert running.until(moment or (lambda: size() > before)), phase
        running.send(number)
        codes[phase] = running.wait()
        return running.said()

    def size():
        return run.metrics.stat().st_size if run.metrics.is_file() else 0

    end("starting", lambda: True)
    end("preparing", lambda: (run.folder / "source").is_dir())
    assert codes["starting"] in (-15, 143) and codes["preparing"] in (-15, 143)
    said = end("training", has_reported(run, 3))
    assert codes["training"] == 143
    assert "stopped by SIGTERM after update" in said and "Traceback" not in said
    assert said.rstrip().endswith(f"go on with: seq2attn train {home.folder / 'parts.yaml'} --resume")
    end("between", None)
    end("saving", is_saving(run))
    said = end("interrupted", None, signal.SIGINT)
    assert {codes[phase] for phase in ("between", "saving")} == {143}
    assert codes["interrupted"] == 130 and "stopped by SIGINT after update" in said
    assert_sound(run)
    assert home.train("parts", "--resume")[0] == 0
    assert_identical(home.run("whole"), run)


@pytest.fixture
def slow_to_validate(corpus):
    """One whose validations take seconds: sentences that it does not know how to end."""
    for name in ("src", "tgt"):
        (corpus / f"dev.{name}").write_text("ba be bi bo bul da de\n" * 3000)
    return Home(corpus, **{**OFTEN, "until": ["4 updates"], "model": MODELS["recurrent"]})


def test_a_validation_is_ended_before_the_training_is(slow_to_validate):
    home = slow_to_validate
    running = home.start("run")
    assert running.until(has_reported(home.run("run"), 2))
    running.send(signal.SIGTERM)
    assert running.wait() == 143
    (checkpoint,) = list_checkpoints(home.run("run").folder)
    assert checkpoint.state.update == checkpoint.state.validated == 2 and checkpoint.score is not None


def test_a_second_signal_ends_it_at_once(slow_to_validate):
    home = slow_to_validate
    running = home.start("run")
    assert running.until(has_reported(home.run("run"), 2))
    for _ in range(3):  # as `timeout` sends it: to the process, and to its group
        running.send(signal.SIGTERM)
    time.sleep(1.1)
    assert running.process.is_alive()
    asked = time.monotonic()
    running.send(signal.SIGTERM)
    assert running.wait() == 143
    assert time.monotonic() - asked < 1
    assert "SIGTERM again" in running.said()
    assert not list_checkpoints(home.run("run").folder)


def test_a_time_limit_stops_it_for_the_queue_to_start_again(home):
    code, said = home.train("parts", "--resume", "auto", stop_after="1s", until=["9999 updates"])
    assert code == 75 and "stopped by training.stop_after after update" in said
    done = list_checkpoints(home.run("parts").folder)[-1].state.update
    until = [f"{done + 3} updates"]
    assert home.train("whole", until=until)[0] == 0
    assert home.train("parts", "--resume", "auto", stop_after="1h", until=until)[0] == 0
    assert_identical(home.run("whole"), home.run("parts"))


# ---------------------------------------------------------------------- faults


@pytest.mark.parametrize("what", ["fsync", "rename", "space"])
def test_a_disk_that_fails_costs_no_checkpoint(home, what):
    assert home.train("whole")[0] == 0
    failures = 0
    for since in (3, 33, 47, 61):
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
        if since in (33, 47):
            assert home.train(name, "--resume", "auto")[0] == 0
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
        code, said = home.train("full", **{**options, "until": ["99 updates"]})
        assert code == 2 and "Traceback" not in said, said
        assert "No space left on device" in said or "os error 28" in said
        run = Run(disk / "run")
        assert_sound(run)
        assert not list(run.folder.rglob("*.partial"))
        done = list_checkpoints(run.folder)[-1].state.update
        assert home.train("whole", **{**options, "at": "whole", "until": [f"{done + 3} updates"]})[0] == 0
        subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
        code, said = home.train("full", "--resume", **{**options, "until": [f"{done + 3} updates"]})
        assert code == 0, said
        assert_identical(home.run("whole"), run)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_two_trainings_in_one_folder(slow_to_validate):
    home = slow_to_validate
    running = home.start("run")
    assert running.until(has_reported(home.run("run"), 2))
    for more in ([], ["--resume"], ["--resume", "auto"]):
        code, said = command("train", home.folder / "run.yaml", *more, log=home.folder / "second.txt")
        assert code == 2
        assert f"process {running.process.pid} on " in said and "is at work in it" in said
    code, said = command("prepare", home.folder / "run.yaml", log=home.folder / "second.txt")
    assert code == 2 and "is at work in it" in said
    running.send(signal.SIGKILL)
    running.wait()
    code, said = home.train("run", "--resume", "auto", until=["1 update"])
    assert code == 0, said


def test_a_folder_that_cannot_be_made(home):
    (home.folder / "file").write_text("")
    code, said = home.train("run", at="file/run")
    assert code == 2 and "cannot be written to (Not a directory)" in said and "Traceback" not in said


def test_resume_is_told_on_either_side_of_the_config(home):
    config = home.config("run", until=["2 updates"])
    for code, words in [
        (2, ["train", config, "--resume"]),
        (2, ["train", "--resume", config]),
        (0, ["train", "--resume", "auto", config]),
        (0, ["train", "--resume", config]),
        (0, ["train", config, "--resume=auto"]),
        (2, ["train", config, "--resume", "aut"]),
        (2, ["train", config]),
    ]:
        found, said = command(*words, log=home.folder / "said.txt")
        assert found == code, (words, said)
