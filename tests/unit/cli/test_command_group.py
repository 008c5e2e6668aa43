"""Errors, version and help of all commands, and the `config` commands."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from seq2attn.cli import app, command_group
from seq2attn.errors import ConfigError, DataError
from tests.support.untrained_runs import CONFIG

ROOT = Path(__file__).parents[3]


def invoke(*arguments: str):
    return CliRunner().invoke(app, list(arguments), prog_name="seq2attn")


class TestShell:
    def test_a_wrong_command_is_a_mistake_of_the_user(self):
        done = invoke("confgi")
        assert done.exit_code == 2
        assert "'config'" in done.stderr

    @pytest.mark.parametrize(
        ("raised", "code", "said"),
        [
            (DataError("a.de:3: empty"), 2, "error: a.de:3: empty\n"),
            (ConfigError("a.yaml:1:1: no\n\n1 mistake"), 2, "a.yaml:1:1: no\n\n1 mistake\n"),
            (KeyboardInterrupt(), 130, "\ninterrupted\n"),
        ],
    )  # fmt: skip
    def test_no_traceback_where_there_is_no_bug(self, raised, code, said):
        def one() -> None:
            raise raised

        done = CliRunner().invoke(command_group("Two commands.", one, two), ["one"])
        assert (done.exit_code, done.stdout, done.stderr) == (code, "", said)

    def test_bugs_keep_their_traceback(self):
        code = "from seq2attn import cli\ndef bug(): 1 / 0\ncli.command_group('', bug)([])"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 1
        assert done.stderr.startswith("Traceback (most recent call last):")
        assert done.stderr.endswith("ZeroDivisionError: division by zero\n")

    def test_a_reader_that_leaves_is_no_error(self):
        code = "from seq2attn import cli\ndef much():\n for n in range(99999): print(n)\n"
        code += "cli.command_group('', much)([])"
        shell = f'{sys.executable} -c "$1" | head -n 1; exit ${{PIPESTATUS[0]}}'
        done = subprocess.run(["bash", "-c", shell, "-", code], capture_output=True, text=True, cwd=ROOT)
        assert (done.returncode, done.stdout, done.stderr) == (141, "0\n", "")


def two() -> None:
    """Without a second command typer would make the first one the whole app."""


@pytest.fixture
def _configs(tmp_path, monkeypatch):
    """A valid config, and one with two mistakes, in the working directory."""
    monkeypatch.chdir(tmp_path)
    Path("lines.txt").touch()
    Path("good.yaml").write_text(CONFIG)
    Path("bad.yaml").write_text(CONFIG.replace("run_dir: run", "run_dri: run"))


@pytest.mark.usefixtures("_configs")
class TestConfig:
    def test_check_continues_after_a_wrong_config(self):
        done = invoke("config", "check", "bad.yaml", "none.yaml", "good.yaml", "--set", "training.seed=3")
        assert (done.exit_code, done.stdout) == (2, "good.yaml: ok\n")
        assert "bad.yaml:1:1: unknown key `run_dri`; did you mean `run_dir`?" in done.stderr
        assert "2 mistakes in bad.yaml\n\nnone.yaml: there is no file none.yaml" in done.stderr

    def test_show(self):
        done = invoke("config", "show", "good.yaml", "--set", "run_dir=other")
        assert done.stdout.startswith("run_dir: other\ndata:\n") and "  decoder:\n    kind: luong\n" in done.stdout
