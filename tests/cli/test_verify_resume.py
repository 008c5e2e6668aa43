"""`verify-resume` as a user runs it, and the phrasebook model killed fifty times."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from seq2attn.diagnostics.compare_runs import compare_runs
from seq2attn.io.weights import load_tensors, save_tensors
from seq2attn.run_directory import RunDirectory
from seq2attn.training.checkpoints.checkpoint import list_checkpoints
from seq2attn.training.checkpoints.retention import latest_valid_checkpoint
from tests.laws.small import BAHDANAU, MODELS, content, corpus, trained
from tests.laws.test_interrupted import PLAIN, assert_identical

__all__ = ["corpus"]  # a fixture
ROOT = Path(__file__).parents[2]
KILLS = 50
FORGETFUL = '''
import torch
from torch import nn

import seq2attn
from seq2attn.encoders import Encoder, EncoderOutput


class Forgetful(Encoder):
    """Its noise is of the process, and no function of where training stands."""

    class Config(seq2attn.Config):
        kind: str

        def build(self, input_dim):
            return Forgetful(input_dim)

    def __init__(self, input_dim):
        super().__init__()
        self.layer, self.noise = nn.Linear(input_dim, 8), torch.Generator().manual_seed(7)
        self.key_dim = self.value_dim = self.final_dim = 8

    def forward(self, embedded, mask):
        states = self.layer(embedded)
        if self.training:
            states = states + 0.1 * torch.randn(states.shape, generator=self.noise)
        return EncoderOutput(states, states, mask, (states[:, :1],))
'''


def verified(home, config, *more):
    command = [sys.executable, "-m", "seq2attn", "verify-resume", str(config), *map(str, more)]
    path = os.pathsep.join([str(ROOT), str(home)])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "TMPDIR": str(home)}
    done = subprocess.run(command, cwd=home, env=environment, text=True, capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_small_model_is_verified(corpus):
    config = corpus / "small.yaml"
    config.write_text(yaml.safe_dump(content(corpus, "small", model=MODELS["hard"], time_limit="1 second")))
    code, out, err = verified(corpus, config, "--updates", 12)
    assert code == 0, err
    _, *rows, _, verdict = out.splitlines()
    assert len(rows) == 8 and all("  identical  " in row for row in rows)
    assert verdict.startswith("identical, on this machine")
    assert "SIGTERM after update" in err and "SIGKILL after update" in err
    assert not list(corpus.glob("seq2attn-*"))


def edited(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_what_differs_is_named(corpus):
    one, other = (trained(corpus, name, **PLAIN) for name in ("one", "other"))
    assert_identical(one, other)
    newest = list_checkpoints(other.folder)[-1]
    changed = {}
    for path, change in ((newest.model_path, 0.25), (newest.optimizer_path, 0.5)):
        tensors = load_tensors(path)
        changed[path] = sorted(tensors)[-1]
        tensors[changed[path]] = tensors[changed[path]] + change
        path.unlink()  # which is mapped
        save_tensors(tensors, path)
    edited(other.metrics_path, '"update": 4, ', '"update": 5, ')
    edited(other.folder / "train.log", "validation at update 3: loss ", "validation at update 3: loss 1")
    edited(other.folder / "samples.txt", "== update 3", "== update 4")
    found = {row.name: row.difference for row in compare_runs(one, other) if not row.is_identical}
    assert [*found] == ["weights", "optimizer", "metrics", "log", "samples"]
    assert found["weights"].startswith(f"update 13: {changed[newest.model_path]}: ")
    assert found["weights"].endswith(" numbers differ, by up to 0.25")
    assert found["optimizer"].startswith(f"{changed[newest.optimizer_path]}: ")
    assert '"update": 5, ' in found["metrics"].split("\n  but: ")[1]
    assert "validation at update 3: loss 1" in found["log"]
    assert found["samples"] == "line 1: == update 3\n  but: == update 4"


@pytest.mark.parametrize("options", [{"seed": 2}, {"max_duration": ["12 updates"]}], ids=str)
def test_other_orders_of_the_data_and_other_ends_differ(corpus, options):
    one, other = (trained(corpus, f"{len(more)}", **{**PLAIN, **more}) for more in ({}, options))
    differing = {row.name for row in compare_runs(one, other) if not row.is_identical}
    assert differing >= {"weights", "optimizer", "training state", "metrics", "log", "weights that translate"}


@pytest.mark.slow
def test_a_model_that_does_not_resume_exactly_is_found_out(corpus):
    (corpus / "forgetful.py").write_text(FORGETFUL)
    model = {**BAHDANAU, "encoder": {"kind": "forgetful:Forgetful"}}
    config = corpus / "small.yaml"
    config.write_text(yaml.safe_dump(content(corpus, "small", model=model)))
    code, out, err = verified(corpus, config, "--updates", 80)
    assert code == 1, err
    assert "NOT identical" in out
    assert re.search(r"^weights: update \d+: .* numbers differ, by up to", out, re.MULTILINE)
    assert re.search(r"^metrics: line \d+: \{.*\n  but: \{", out, re.MULTILINE)


FAMILIES = [
    "phrasebook.yaml",
    "attention/03-luong.yaml",
    "attention/04-local.yaml",
    "attention/07-hard.yaml",
    "attention/11-convolutional.yaml",
    "attention/12-transformer.yaml",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_of_decoders_is_verified(name, tmp_path):
    code, out, err = verified(tmp_path, ROOT / "configs" / name, "--updates", 12)
    print(f"\n{name}\n{err}{out}")
    assert code == 0, out + err


@pytest.mark.slow
def test_the_phrasebook_model_killed_fifty_times_is_never_killed(tmp_path):
    """At random instants of starting, preparing and training, and while a checkpoint is written, renamed and pruned."""
    config = phrasebook(tmp_path)
    whole, parts = RunDirectory(tmp_path / "whole"), RunDirectory(tmp_path / "parts")
    assert start(config, whole).wait() == 0
    draw, when, rounds = random.Random(5), dict.fromkeys(("any", "training", "saving", "saved"), 0), 1
    while sum(when.values()) < KILLS:
        process, how = start(config, parts), min(when, key=when.get)
        wait(process, parts, how)
        time.sleep(draw.random() * {"any": 8.0, "training": 1.5, "saving": 0.2, "saved": 0.03}[how])
        process.send_signal(signal.SIGKILL)
        if process.wait() == 0:  # it was over before: another one
            assert_identical(whole, parts)
            parts.folder.rename(tmp_path / f"round-{rounds}")
            rounds += 1
            continue
        when[how] += 1
        latest_valid_checkpoint(parts.folder, pytest.fail)
        if parts.weights_path.is_file():
            parts.load_model()
    assert start(config, parts).wait() == 0
    assert_identical(whole, parts)
    print(f"\n{sum(when.values())} of {KILLS} kills survived, in {rounds} trainings: {when}")


def phrasebook(home):
    """The default model, tried often on few sentences, so that checkpoints are written most of the time."""
    data = ROOT / "data" / "phrasebook"
    for name in ("de", "en"):
        lines = (data / f"dev.{name}").read_text(encoding="utf-8").split("\n")[:8]
        (home / f"dev.{name}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = {
        "extends": str(ROOT / "configs" / "phrasebook.yaml"),
        "data": {"dev": {"source": "dev.de", "target": "dev.en"}},
        "training": {
            "max_duration": ["60 updates"],
            "report_every": 2,
            "validation": {"every": "3 updates"},
            "checkpoints": {"keep_last": 3, "keep_best": 2, "average": "best"},
        },
    }
    path = home / "config.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def start(config, run):
    more = ["--resume-if-exists", "--set", f"run_dir={run.folder}"]
    with (run.folder.parent / f"{run.folder.name}.txt").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "seq2attn", "train", str(config), *more],
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def wait(process, run, how):
    """Until it trains, saves, or has saved; whether it was still there."""
    before = run.metrics_path.stat().st_mtime_ns if run.metrics_path.is_file() else 0

    def trains():
        return run.metrics_path.is_file() and run.metrics_path.stat().st_mtime_ns > before

    def saves():
        return any((run.folder / "checkpoints").glob("*.partial"))

    for moment in {"any": [], "training": [trains], "saving": [saves], "saved": [saves, lambda: not saves()]}[how]:
        while not moment():
            if process.poll() is not None:
                return False
            time.sleep(0.0005)
    return True
