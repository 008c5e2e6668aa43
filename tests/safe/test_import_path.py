"""Commands import nothing from the working directory, unless PYTHONPATH names it."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from seq2attn.io import import_path
from seq2attn.io.import_path import environment, leave_out_working_directory

ROOT = Path(__file__).parents[2]
HOSTILE = "open('it ran', 'w'); raise SystemExit(9)"


def test_a_command_does_not_import_from_an_untrusted_folder(tmp_path: Path) -> None:
    """Modules with the names of required and of optional packages."""
    for name in ("typer", "yaml", "pydantic", "torch", "matplotlib", "ctranslate2"):
        (tmp_path / f"{name}.py").write_text(HOSTILE, encoding="utf-8")
    command = [sys.executable, "-m", "seq2attn", "config", "check", "none.yaml"]
    env = os.environ | {"PYTHONPATH": f"{os.pathsep}{ROOT}"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (done.returncode, "there is no file none.yaml" in done.stderr) == (2, True), done
    assert not (tmp_path / "it ran").exists()


@pytest.mark.parametrize(
    ("path", "expected"), [("", False), (":", False), ("/other:", False), ("/other", False), ("HERE:", True)]
)
def test_the_working_directory_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, expected: bool
) -> None:
    sysconfig.get_paths()  # imports modules at its first call
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), "/other", str(tmp_path)])
    monkeypatch.setenv("PYTHONPATH", path.replace("HERE", str(tmp_path)))
    leave_out_working_directory()
    assert (sys.path == ["/other"]) != expected and (str(tmp_path) in sys.path) == expected


def test_processes_import_this_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seq2attn.py").write_text(HOSTILE, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", ":")
    command = [sys.executable, "-c", "import seq2attn.io.import_path as module; print(module.__file__)"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout == f"{import_path.__file__}\n"
