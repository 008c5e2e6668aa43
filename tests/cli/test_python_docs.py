"""The code of docs/python.md runs, and every public name is on the page."""

from __future__ import annotations

import re

import seq2attn
from tests.cli.conftest import invoke_in
from tests.cli.test_readme import PYTHON, ROOT, home, run_python

__all__ = ["home"]  # a fixture
PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")


def test_every_example_runs_in_turn(home):
    code, shortened = re.subn("40 updates", "5 updates", "\n".join(PYTHON.findall(PAGE)))
    assert shortened == 1
    out = run_python(code, home)
    assert out.startswith("runs/python\n")
    assert re.search(r"^\(1, 1, \d+, \d+\)$", out, re.MULTILINE)
    for name in ("runs/attention.html", "runs/attention.svg", "runs/python/model.safetensors"):
        assert (home / name).is_file(), name


def test_every_public_name_is_on_the_page():
    assert [name for name in seq2attn.__all__ if f"`{name}" not in PAGE and name != "Translator"] == []


def test_training_from_python_is_that_of_the_command(toy, tmp_path, monkeypatch):
    monkeypatch.chdir(toy.folder)
    overrides = ["training.max_duration=[3 updates]", f"run_dir={tmp_path / 'python'}"]
    run = seq2attn.train(seq2attn.load_config("toy.yaml", overrides))
    command = tmp_path / "command"
    invoke_in(toy.folder, "train", "toy.yaml", f"--set={overrides[0]}", f"--set=run_dir={command}")
    assert run.folder == tmp_path / "python"
    assert (run.folder / "model.safetensors").read_bytes() == (command / "model.safetensors").read_bytes()
