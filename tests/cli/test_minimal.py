"""scripts/minimal.py, the program for readers: few updates, the whole way."""

from __future__ import annotations

import subprocess
import sys

from tests.cli.conftest import ROOT

SCRIPT = ROOT / "scripts" / "minimal.py"


def test_it_trains_translates_and_draws(tmp_path):
    picture = tmp_path / "attention.svg"
    command = [sys.executable, SCRIPT, "--updates", "10", "--picture", picture]
    done = subprocess.run(command, cwd=tmp_path, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    update, bleu, source, *drawing = done.stdout.splitlines()
    assert update.startswith("update 10: loss ") and bleu.startswith("BLEU ")
    assert source.startswith("Die Mutter") and drawing[-1].startswith("weight:")
    assert "<svg" in picture.read_text(encoding="utf-8")


def test_it_is_short_enough_to_be_read():
    assert len(SCRIPT.read_text(encoding="utf-8").splitlines()) <= 150
