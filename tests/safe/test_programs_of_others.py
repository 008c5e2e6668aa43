"""Compiled programs are native code: only those that were compiled here are run."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import torch

from seq2attn.engines.programs import Programs
from seq2attn.engines.programs.known import check_known, remember
from seq2attn.errors import RunError
from seq2attn.run import Run


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def packages(tmp_path: Path) -> list[Path]:
    made = [tmp_path / f"{name}.pt2" for name in ("encode", "step")]
    for package in made:
        package.write_bytes(package.name.encode())
    return made


def test_what_was_compiled_here_is_known(home: Path, packages: list[Path]) -> None:
    with pytest.raises(
        RunError, match=r"encode.pt2: is native code that was not compiled here.*--allow-code programs"
    ):
        check_known(packages)
    remember(packages)
    check_known(packages)
    assert len([*home.rglob("*")]) == 4  # two folders, two digests


def test_what_was_changed_is_not(home: Path, packages: list[Path]) -> None:
    remember(packages)
    packages[1].write_bytes(b"other")
    with pytest.raises(RunError, match=r"step\.pt2: is native code"):
        check_known(packages)


def test_a_run_cannot_say_so_itself(
    home: Path, packages: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative folder would be one of the working directory, which may be a stranger's."""
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", str(home / "home"))
    monkeypatch.chdir(home.parent)
    remember(packages)
    assert not (home / "seq2attn").exists()
    assert (home / "home/.local/state/seq2attn/programs").is_dir()


def test_no_place_to_remember(home: Path, packages: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    home.touch()
    remember(packages)
    assert f"({os.strerror(errno.ENOTDIR)}), so that it will not be known" in capsys.readouterr().err
    with pytest.raises(RunError, match="is native code"):
        check_known(packages)


def test_a_package_that_is_missing(home: Path, packages: list[Path]) -> None:
    packages[0].unlink()
    with pytest.raises(RunError, match=r"encode\.pt2: cannot be read"):
        check_known(packages)


def test_the_engine_asks(home: Path, packages: list[Path]) -> None:
    folder = packages[0].parent
    (folder / "programs.json").write_text("{}", encoding="utf-8")
    for allowed in ((), ("ctranslate2",), ("programs.more",)):
        with pytest.raises(RunError, match="is native code that was not compiled here"):
            Programs().open(Run(folder, allowed), folder, torch.device("cpu"))
    with pytest.raises(RunError, match="was compiled for"):  # the next thing that is looked at
        Programs().open(Run(folder, ("programs",)), folder, torch.device("cpu"))
