"""Trainings killed or stopped at any time, and failing disks: the run stays valid, and resumed equals uninterrupted."""

import os
import pty
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest
import yaml

from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.training.checkpoints.checkpoint import list_checkpoints, load_checkpoint
from seq2attn.training.checkpoints.retention import latest_valid_checkpoint
from tests.support.commands import ENVIRONMENT, command
from tests.support.compare_runs import assert_identical
from tests.support.processes import Command
from tests.support.trainings import CASES, MODELS, PLAIN, content

OFTEN = {
    **PLAIN,
    "max_duration": ["14 updates"],
    "validation": {"every": "2 updates", "metric": "loss"},
    "report_every": 3,
}
SLOW = {"every": "2 updates", "metric": "bleu"}


class Home:
    """A folder with a text, and its trainings."""

    def __init__(self, folder, **options):
        self.folder, self.options = folder, options

    def config(self, run, *, at=None, **options):
        path = self.folder / f"{run}.yaml"
        path.write_text(yaml.safe_dump(content(self.folder, at or run, **{**self.options, **options})))
        return path

    def start(self, run, *more, fault=None, **options):
        return Command("train", self.config(run, **options), *more, log=self.folder / f"{run}.txt", fault=fault)

    def train(self, run, *more, fault=None, **options):
        return self.start(run, *more, fault=fault, **options).finish()

    def run(self, name):
        return RunDirectory(self.folder / name)


def is_saving(run):
    return lambda: any((run.folder / "checkpoints").glob("*.partial"))


def has_reported(run, update):
    return lambda: (
        (run.folder / "metrics.jsonl").is_file()
        and f'"update": {update},' in (run.folder / "metrics.jsonl").read_text()
    )


def assert_valid(run):
    """All files are valid, and the newest checkpoint can be resumed from without a warning."""
    newest = latest_valid_checkpoint(run.folder, pytest.fail)
    for checkpoint in list_checkpoints(run.folder)[-1:]:
        load_checkpoint(checkpoint)
        assert checkpoint.train_state == newest.train_state
    if run.weights_path.is_file():
        run.load()


def slow_to_validate(folder, sentences=3000):
    """A training whose validations take seconds: the model does not predict EOS."""
    for name in ("src", "tgt"):
        (folder / f"dev.{name}").write_text("ba be bi bo bul da de\n" * sentences)
    return Home(folder, **{**OFTEN, "max_duration": ["4 updates"], "model": MODELS["recurrent"], "validation": SLOW})


@pytest.fixture
def home(corpus):
    return Home(corpus, **OFTEN)


@pytest.mark.parametrize(
    ("name", "num_kills"),
    [
        ("transformer, bpe-dropout, plateau", 1),
        *(pytest.param(name, 25, marks=pytest.mark.slow) for name in CASES if name.startswith(("recurrent", "hard"))),
    ],
)
@pytest.mark.slow
def test_a_training_killed_at_any_time_equals_an_uninterrupted_one(corpus, name, num_kills):
    home, rng = Home(corpus, **{**CASES[name], **OFTEN}), random.Random(name)
    assert home.train("whole")[0] == 0
    whole, parts, kills, rounds = home.run("whole"), home.run("parts"), 0, 0
    while kills < num_kills or rounds == 0:
        running = home.start("parts", "--resume-if-exists")
        if kills % 3 == 0:
            running.until(is_saving(parts))
        time.sleep(rng.random() * (0.003, 0.6, 0.2)[kills % 3])
        running.send(signal.SIGKILL)
        if running.wait() == 0:  # it ended before
            assert_identical(whole, parts)
            shutil.rmtree(parts.folder)
            rounds += 1
            continue
        kills += 1
        if (parts.folder / "config.yaml").is_file():
            assert_valid(parts)
        if kills >= num_kills:
            assert home.train("parts", "--resume-if-exists")[0] == 0
            assert_identical(whole, parts)
            rounds += 1


@pytest.mark.parametrize("phases", ["some", pytest.param("all", marks=pytest.mark.slow)])
def test_signals_in_every_phase(home, phases):
    home.options |= {"max_duration": ["40 updates"]}
    assert home.train("whole")[0] == 0
    run, codes = home.run("parts"), {}

    def end(phase, moment, number=signal.SIGTERM):
        before, running = size(), home.start("parts", "--resume-if-exists")
        assert running.until(moment or (lambda: size() > before)), phase
        running.send(number)
        codes[phase] = running.wait()
        return running.output()

    def size():
        return (run.folder / "metrics.jsonl").stat().st_size if (run.folder / "metrics.jsonl").is_file() else 0

    if phases == "all":
        end("starting", lambda: True)
        end("preparing", lambda: (run.folder / "source").is_dir())
        assert codes["starting"] in (-15, 143) and codes["preparing"] in (-15, 143)
    output = end("training", has_reported(run, 3))
    assert codes["training"] == 143
    assert "stopped by SIGTERM after update" in output and "Traceback" not in output
    assert output.rstrip().endswith(f"resume with: seq2attn train {home.folder / 'parts.yaml'} --resume")
    end("saving", is_saving(run))
    assert codes["saving"] == 143
    if phases == "all":
        end("between", None)
        assert codes["between"] == 143
        output = end("hung up", None, signal.SIGHUP)
        assert codes["hung up"] == 129 and "stopped by SIGHUP after update" in output
    output = end("interrupted", None, signal.SIGINT)
    assert codes["interrupted"] == 130 and "stopped by SIGINT after update" in output
    assert_valid(run)
    assert home.train("parts", "--resume")[0] == 0
    assert_identical(home.run("whole"), run)


def test_a_validation_is_finished_before_training_stops(corpus):
    home = slow_to_validate(corpus, 400)
    running = home.start("run")
    assert running.until(has_reported(home.run("run"), 2))
    running.send(signal.SIGTERM)
    assert running.wait() == 143
    (checkpoint,) = list_checkpoints(home.run("run").folder)
    state = checkpoint.train_state
    assert state.update == state.last_validated_update == 2 and checkpoint.is_validated


@pytest.mark.slow
def test_a_second_signal_exits_at_once(corpus):
    home = slow_to_validate(corpus)
    running = home.start("run")
    assert running.until(has_reported(home.run("run"), 2))
    for _ in range(3):  # `timeout` signals both process and group
        running.send(signal.SIGTERM)
    time.sleep(1.1)
    assert running.process.is_alive() and running.output().count("training ends after this update or validation") == 1
    start = time.monotonic()
    running.send(signal.SIGTERM)
    assert running.wait() == 143
    assert time.monotonic() - start < 1
    assert "SIGTERM again" in running.output()
    assert not list_checkpoints(home.run("run").folder)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pipe", "terminal"])
def test_a_closed_pipe_or_terminal_does_not_end_training(home, kind):
    read, write = os.pipe() if kind == "pipe" else pty.openpty()
    line = command("train", home.config("run", report_every=1))
    with subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=write, stderr=write, env=ENVIRONMENT) as process:
        os.close(write)
        os.read(read, 1)
        os.close(read)
        assert process.wait() == 0
    run = home.run("run")
    assert list_checkpoints(run.folder)[-1].train_state.update == 14
    assert " # training ended after " in (run.folder / "train.log").read_text()


def test_a_time_limit_stops_training_with_exit_code_75(home):
    code, output = home.train("run", time_limit="0.001 seconds", max_duration=["9999 updates"])
    assert code == 75 and "stopped by training.time_limit after update" in output


@pytest.mark.slow
def test_two_processes_stop_and_resume_together(home):
    def torchrun(run, stop):
        arguments = ["--standalone", "--nproc-per-node=2", "-m", "seq2attn", "train", str(home.config(run))]
        with (home.folder / f"{run}.txt").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "torch.distributed.run", *arguments, "--resume-if-exists"],
                env={**ENVIRONMENT, "CUDA_VISIBLE_DEVICES": ""},
                stdout=log,
                stderr=log,
            )
        while stop and not has_reported(home.run(run), 6)():
            assert process.poll() is None
            time.sleep(0.001)
        if stop:
            process.send_signal(signal.SIGTERM)
        return process.wait()

    home.options |= {"max_duration": ["400 updates"], "validation": {"every": "150 updates", "metric": "loss"}}
    assert torchrun("whole", stop=False) == 0
    assert torchrun("parts", stop=True) != 0
    assert "stopped by SIGTERM after update" in (home.folder / "parts.txt").read_text()
    newest = list_checkpoints(home.run("parts").folder)[-1]
    assert not newest.is_validated and len(newest.train_state.unreported_metrics) == 2
    assert torchrun("parts", stop=False) == 0
    assert_identical(home.run("whole"), home.run("parts"))


@pytest.mark.slow
@pytest.mark.parametrize("call", ["fsync", "rename", "space"])
def test_a_failing_disk_costs_no_checkpoint(home, call):
    assert home.train("whole")[0] == 0
    failures = 0
    for since in (3, 33, 40):
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
        assert f"is in use by process {running.process.pid} on " in output
    running.send(signal.SIGKILL)
    running.wait()


def test_a_folder_that_cannot_be_created(home):
    (home.folder / "file").write_text("")
    code, output = home.train("run", at="file/run")
    assert code == 2 and "cannot be written to (Not a directory)" in output and "Traceback" not in output
