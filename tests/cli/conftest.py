"""The package as a user has it: built as a wheel, installed elsewhere, run in processes of its own."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from seq2attn.cli import app

ROOT = Path(__file__).parents[2]
SOURCES = ("seq2attn", "setup.cfg", "pyproject.toml", "LICENSE", "README.md")

WORDS = {
    "rot": "red",
    "blau": "blue",
    "alt": "old",
    "neu": "new",
    "haus": "house",
    "boot": "boat",
    "und": "and",
}

CONFIG = """\
run: runs/toy
data:
  train: {kind: aligned, source: text/train.de, target: text/train.en}
  dev: {kind: aligned, source: text/dev.de, target: text/dev.en}
  test:
    short: {kind: aligned, source: text/short.de, target: text/short.en}
    mixed: {kind: aligned, source: text/mixed.de, target: text/mixed.en}
text:
  joint: {kind: bpe, size: 300}
model:
  embeddings: {dim: 32}
  encoder: {kind: gru, dim: 32}
  decoder: {kind: luong, dim: 32}
training:
  until: [200 updates]
  batch: {tokens: 256}
  optimizer: {kind: adam, rate: 0.01}
  schedule: {kind: constant}
  validation: {every: 50 updates}
  checkpoints: {keep_last: 2, keep_best: 2}
  report_every: 100
search: {kind: beam, width: 4}
"""


@dataclass(frozen=True)
class Done:
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Installed:
    """The package, installed in a folder of its own."""

    site: Path

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"PYTHONPATH": str(self.site), "OMP_NUM_THREADS": "1"}

    def command(self, *arguments: object) -> list[str]:
        return [sys.executable, "-m", "seq2attn", *map(str, arguments)]

    def run(self, folder: Path, command: Sequence[str], given: bytes = b"") -> Done:
        """Runs any command in `folder`."""
        done = subprocess.run(command, cwd=folder, env=self.environment, input=given, capture_output=True)
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def __call__(self, folder: Path, *arguments: object, given: bytes = b"", code: int = 0) -> Done:
        """`seq2attn` with `arguments` in `folder`; its exit code must be `code`."""
        done = self.run(folder, self.command(*arguments), given)
        assert done.code == code, done.err
        return done


@pytest.fixture(scope="session")
def seq2attn(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The installed package. It is built from a copy, so that nothing is left behind in the checkout."""
    copy, wheels, site = (tmp_path_factory.mktemp(name) for name in ("copy", "wheels", "site"))
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif (ROOT / name).exists():
            shutil.copy(ROOT / name, copy)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(copy)]
    subprocess.run([*pip, *build], check=True)
    (wheel,) = wheels.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(site), str(wheel)], check=True)
    return Installed(site)


Invoke = Callable[..., Done]


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """`seq2attn` in this process and an own folder: for the many cases that would otherwise import torch anew."""
    monkeypatch.chdir(tmp_path)

    def invoked(*arguments: object, given: bytes = b"", code: int = 0) -> Done:
        done = CliRunner().invoke(app, [*map(str, arguments)], input=given, prog_name="seq2attn")
        assert done.exit_code == code, (done.exception, done.stderr)
        return Done(done.exit_code, done.stdout, done.stderr)

    return invoked


@dataclass(frozen=True)
class Toy:
    """A folder with a config, its text, and the run that `train` made of it."""

    folder: Path
    config: Path
    run: Path
    prepared: Done
    trained: Done


@pytest.fixture(scope="session")
def toy(seq2attn: Installed, tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """One tiny training, shared by all tests; those that change a run make a copy."""
    folder = tmp_path_factory.mktemp("toy")
    write_toy(folder)
    prepared = seq2attn(folder, "prepare", "toy.yaml")
    trained = seq2attn(folder, "train", "toy.yaml")
    return Toy(folder, folder / "toy.yaml", folder / "runs/toy", prepared, trained)


@pytest.fixture
def run_copy(toy: Toy, tmp_path: Path) -> Path:
    """A run of one's own to spoil."""
    return Path(shutil.copytree(toy.run, tmp_path / "run"))


def write_toy(folder: Path, config: str = CONFIG) -> None:
    """A config and its text: pairs that are translated word for word."""
    draw = random.Random(1)
    text = folder / "text"
    text.mkdir()
    for name, pairs, longest in (("train", 120, 9), ("dev", 12, 9), ("short", 20, 3), ("mixed", 60, 20)):
        lines = [draw.choices(list(WORDS), k=draw.randint(1, longest)) for _ in range(pairs)]
        write_lines(text / f"{name}.de", [" ".join(line) for line in lines])
        write_lines(text / f"{name}.en", [" ".join(WORDS[word] for word in line) for line in lines])
    (folder / "toy.yaml").write_text(config, encoding="utf-8")


def write_lines(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
