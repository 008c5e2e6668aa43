"""No command imports from the working directory what it was not told to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from seq2attn.io import import_path
from seq2attn.io.import_path import environment, leave_out_working_directory

ROOT = Path(__file__).parents[2]
HOSTILE = "open('it ran', 'w'); raise SystemExit(9)"


def test_a_stranger_s_folder_is_not_imported_from(tmp_path: Path) -> None:
    """With names of what the command needs, and of what it looks for and may not find."""
    for name in ("typer", "yaml", "pydantic", "torch", "matplotlib", "ctranslate2"):
        (tmp_path / f"{name}.py").write_text(HOSTILE, encoding="utf-8")
    command = [sys.executable, "-m", "seq2attn", "config", "check", "none.yaml"]
    env = os.environ | {"PYTHONPATH": f"{os.pathsep}{ROOT}"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (done.returncode, "there is no file none.yaml" in done.stderr) == (2, True), done
    assert not (tmp_path / "it ran").exists()


class TestWorkingDirectory:
    @pytest.fixture(autouse=True)
    def _here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", ["", str(tmp_path), "/other", str(tmp_path)])

    @pytest.mark.parametrize("path", ["", ":", "/other:", "/other"])
    def test_is_left_out(self, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
        monkeypatch.setenv("PYTHONPATH", path)
        leave_out_working_directory()
        assert sys.path == ["/other"]

    def test_stays_where_it_is_named(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:")
        leave_out_working_directory()
        assert str(tmp_path) in sys.path

    def test_processes_have_the_package_without_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "seq2attn.py").write_text(HOSTILE, encoding="utf-8")
        monkeypatch.setenv("PYTHONPATH", ":")
        code = "import seq2attn.io.import_path as found; print(found.__file__)"
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
        assert done.stdout == f"{import_path.__file__}\n"
