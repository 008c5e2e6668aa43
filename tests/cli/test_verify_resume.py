"""`verify-resume` on the command line, and the phrasebook model killed fifty times."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import yaml

from seq2attn.diagnostics.compare_runs import compare_runs
from seq2attn.io.weights import load_tensors, save_tensors
from seq2attn.run_directory import RunDirectory
from seq2attn.training.checkpoints.checkpoint import list_checkpoints
from seq2attn.training.checkpoints.retention import latest_valid_checkpoint
from tests.cli.conftest import invoke_in
from tests.laws.small import BAHDANAU, MODELS, content, corpus, trained
from tests.laws.test_interrupted import PLAIN, assert_identical

__all__ = ["corpus"]  # a fixture
ROOT = Path(__file__).parents[2]
KILLS = 50
FORGETFUL = '''
import torch
from torch import nn

import seq2attn
from seq2attn.encoders.base import Encoder, EncoderOutput


class Forgetful(Encoder):
    """Noise from a generator that is not seeded for each update."""

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


def verify(home, config, *more):
    command = [sys.executable, "-m", "seq2attn", "verify-resume", str(config), *map(str, more)]
    path = os.pathsep.join([str(ROOT), str(home)])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=home, env=environment, text=True, capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_small_model_is_verified(corpus, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(corpus))
    config = corpus / "small.yaml"
    config.write_text(yaml.safe_dump(content(corpus, "small", model=MODELS["hard"], time_limit="1 second")))
    done = invoke_in(corpus, "verify-resume", config, "--updates", 12)
    _, *rows, _, result = done.out.splitlines()
    assert len(rows) == 8 and all("  identical  " in row for row in rows)
    assert result.startswith("identical, on this machine")
    assert "SIGTERM after update" in done.err and "SIGKILL after update" in done.err
    assert not list(corpus.glob("seq2attn-*"))


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_first_differences_are_named(corpus):
    one, other = (trained(corpus, name, **PLAIN) for name in ("one", "other"))
    assert_identical(one, other)
    newest = list_checkpoints(other.folder)[-1]
    changed = {}
    for path, change in ((newest.model_path, 0.25), (newest.optimizer_path, 0.5)):
        tensors = load_tensors(path)
        changed[path] = sorted(tensors)[-1]
        tensors[changed[path]] = tensors[changed[path]] + change
        path.unlink()  # it may be mapped into memory
        save_tensors(tensors, path)
    edit(other.metrics_path, '"update": 4, ', '"update": 5, ')
    edit(other.folder / "train.log", "validation at update 3: loss ", "validation at update 3: loss 1")
    edit(other.folder / "samples.txt", "== update 3", "== update 4")
    differences = {row.name: row.difference for row in compare_runs(one, other) if not row.is_identical}
    assert [*differences] == ["weights", "optimizer", "metrics", "log", "samples"]
    assert differences["weights"].startswith(f"update 13: {changed[newest.model_path]}: ")
    assert differences["weights"].endswith(" numbers differ, by up to 0.25")
    assert differences["optimizer"].startswith(f"{changed[newest.optimizer_path]}: ")
    assert '"update": 5, ' in differences["metrics"].split("\n  but: ")[1]
    assert "validation at update 3: loss 1" in differences["log"]
    assert differences["samples"] == "line 1: == update 3\n  but: == update 4"


@pytest.mark.parametrize("options", [{"seed": 2}, {"max_duration": ["12 updates"]}], ids=str)
def test_another_seed_or_duration_differs(corpus, options):
    one, other = (trained(corpus, f"{len(more)}", **{**PLAIN, **more}) for more in ({}, options))
    differing = {row.name for row in compare_runs(one, other) if not row.is_identical}
    assert differing >= {"weights", "optimizer", "training state", "metrics", "log", "weights that translate"}


@pytest.mark.slow
def test_a_model_that_does_not_resume_exactly_fails(corpus):
    (corpus / "forgetful.py").write_text(FORGETFUL)
    model = {**BAHDANAU, "encoder": {"kind": "forgetful:Forgetful"}}
    config = corpus / "small.yaml"
    config.write_text(yaml.safe_dump(content(corpus, "small", model=model)))
    code, out, err = verify(corpus, config, "--updates", 80)
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
    code, out, err = verify(tmp_path, ROOT / "configs" / name, "--updates", 12)
    print(f"\n{name}\n{err}{out}")
    assert code == 0, out + err


@pytest.mark.slow
def test_the_phrasebook_model_killed_fifty_times_equals_an_uninterrupted_one(tmp_path):
    """At random instants of starting, preparing and training, and while a checkpoint is written, renamed and pruned."""
    config = phrasebook(tmp_path)
    whole, parts = RunDirectory(tmp_path / "whole"), RunDirectory(tmp_path / "parts")
    assert start(config, whole).wait() == 0
    rng, kills, rounds = random.Random(5), dict.fromkeys(("any", "training", "saving", "saved"), 0), 1
    while sum(kills.values()) < KILLS:
        process, phase = start(config, parts), min(kills, key=kills.get)
        wait(process, parts, phase)
        time.sleep(rng.random() * {"any": 8.0, "training": 1.5, "saving": 0.2, "saved": 0.03}[phase])
        process.send_signal(signal.SIGKILL)
        if process.wait() == 0:  # it ended before: start another
            assert_identical(whole, parts)
            parts.folder.rename(tmp_path / f"round-{rounds}")
            rounds += 1
            continue
        kills[phase] += 1
        latest_valid_checkpoint(parts.folder, pytest.fail)
        if parts.weights_path.is_file():
            parts.load_model()
    assert start(config, parts).wait() == 0
    assert_identical(whole, parts)
    print(f"\n{sum(kills.values())} of {KILLS} kills survived, in {rounds} trainings: {kills}")


def phrasebook(home):
    """The default model with frequent short validations, so that checkpoints are written most of the time."""
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


def wait(process, run, phase):
    """Wait until the process trains, saves, or has saved. Returns False if it ended."""
    before = run.metrics_path.stat().st_mtime_ns if run.metrics_path.is_file() else 0

    def trains():
        return run.metrics_path.is_file() and run.metrics_path.stat().st_mtime_ns > before

    def saves():
        return any((run.folder / "checkpoints").glob("*.partial"))

    for moment in {"any": [], "training": [trains], "saving": [saves], "saved": [saves, lambda: not saves()]}[phase]:
        while not moment():
            if process.poll() is not None:
                return False
            time.sleep(0.0005)
    return True
