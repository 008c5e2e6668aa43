"""`seq2attn` as a user calls it, and one small training for all tests."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.commands import Invoke, Toy, invoke_in, write_toy


@pytest.fixture
def mistake(invoke: Invoke) -> Callable[..., str]:
    """The error message of a command that prints nothing else."""

    def run(*arguments: object) -> str:
        done = invoke(*arguments, code=2)
        assert done.out == ""
        return done.err

    return run


@pytest.fixture
def failing_trainings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings of sweeps end with an error at once."""
    script = tmp_path / "script"
    fail = 'case "$*" in *sweep.worker*) echo error: no space; exit 2; esac'
    script.write_text(f'#!/bin/sh\n{fail}\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """One tiny training, shared by all tests; those that change a run make a copy."""
    folder = tmp_path_factory.mktemp("toy")
    write_toy(folder)
    prepared = invoke_in(folder, "prepare", "toy.yaml")
    trained = invoke_in(folder, "train", "toy.yaml")
    return Toy(folder, folder / "toy.yaml", folder / "runs/toy", prepared, trained)


@pytest.fixture
def run_copy(toy: Toy, tmp_path: Path) -> Path:
    """A run of one's own to spoil."""
    return Path(shutil.copytree(toy.run, tmp_path / "run"))
