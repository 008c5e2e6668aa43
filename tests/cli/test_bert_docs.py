"""The commands and code of docs/bert.md run, and its heads solve their tasks."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import yaml

from tests.cli.test_readme import PYTHON, ROOT, commands, home, run, short

__all__ = ["home"]  # a fixture
PAGE = "docs/bert.md"


def text() -> str:
    return (ROOT / PAGE).read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_heads_learn_their_tasks(home):
    output = run("python scripts/bert_heads.py", home)
    shown = re.findall(r"^.*: \d+ of \d+ held-out examples right \(100\.0%\)$", text(), re.MULTILINE)
    assert len(shown) == 2
    assert [line for line in output.splitlines() if "held-out" in line] == shown


@pytest.mark.slow
def test_every_command_runs(home):
    shown = [command for command in commands(PAGE) if "bert_heads" not in command]
    assert len(shown) == 5
    for command in shown:
        run(command, home, *short(command))
    (code,) = PYTHON.findall(text())
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=home, env=environment, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("torch.Size([2, ")


def test_the_config_shown_is_that_of_the_file():
    (shown,) = re.findall(r"^```yaml\n(.*?)^```", text(), re.MULTILINE | re.DOTALL)
    file = yaml.safe_load((ROOT / "configs" / "bert.yaml").read_text(encoding="utf-8"))
    assert file["tokenizer"].pop("joint") is None
    assert yaml.safe_load(shown) == {name: file[name] for name in ("tokenizer", "model")}
