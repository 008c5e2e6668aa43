"""`seq2attn` as a user calls it, and a config with its text."""

import logging
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from seq2attn.cli import app

ROOT = Path(__file__).parents[2]
WORDS = {"rot": "red", "blau": "blue", "alt": "old", "neu": "new", "haus": "house", "boot": "boat", "und": "and"}
CONFIG = """\
run_dir: runs/toy
data:
  train: {kind: plain, source: text/train.de, target: text/train.en}
  dev: {kind: plain, source: text/dev.de, target: text/dev.en}
  test:
    short: {kind: plain, source: text/short.de, target: text/short.en}
    mixed: {kind: plain, source: text/mixed.de, target: text/mixed.en}
tokenizer:
  joint: {kind: bpe, vocab_size: 300}
model:
  embeddings: {dim: 32}
  encoder: {kind: gru, dim: 32}
  decoder: {kind: luong, dim: 32}
training:
  max_duration: [100 updates]
  batch: {tokens: 512}
  optimizer: {kind: adam, lr: 0.02}
  lr_schedule: {kind: constant}
  validation: {every: 25 updates}
  checkpoints: {keep_last: 2, keep_best: 2}
  report_every: 50
search: {kind: beam, beam_size: 4}
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Done:
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str


def invoke_in(folder: Path, *arguments: object, given: bytes = b"", code: int = 0) -> Done:
    """`seq2attn` with `arguments` in `folder`, in this process: to import torch takes longer than most commands."""
    here, logger = Path.cwd(), logging.getLogger("seq2attn")
    assert logging.lastResort is not None
    logger.addHandler(logging.lastResort)  # as without pytest, which has handlers of its own
    os.chdir(folder)
    try:
        done = CliRunner().invoke(app, [*map(str, arguments)], input=given, prog_name="seq2attn")
    finally:
        os.chdir(here)
        logger.removeHandler(logging.lastResort)
    assert done.exit_code == code, (done.exception, done.stderr)
    return Done(done.exit_code, done.stdout, done.stderr)


def all_commands() -> dict[str, Any]:
    """The commands by their names, such as `config check`."""
    group: Any = typer.main.get_command(app)
    subcommands = {f"config {name}": one for name, one in group.commands["config"].commands.items()}
    return {name: one for name, one in group.commands.items() if name != "config"} | subcommands


def command(*arguments: object) -> list[str]:
    """`seq2attn` with `arguments`, for a process of its own."""
    return [sys.executable, "-m", "seq2attn", *map(str, arguments)]


def run_process(folder: Path, words: Sequence[str]) -> Done:
    """Any command in `folder`, in a process of its own."""
    done = subprocess.run(words, cwd=folder, env=ENVIRONMENT, capture_output=True)
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


Invoke = Callable[..., Done]


@dataclass(frozen=True)
class Toy:
    """A folder with a config, its text, and the run that `train` made of it."""

    folder: Path
    config: Path
    run: Path
    prepared: Done
    trained: Done


def write_toy(folder: Path, config: str = CONFIG, pairs: Mapping[str, Pairs] | None = None) -> None:
    """A config and its text: if no `pairs` are given, those that are translated word for word."""
    (folder / "text").mkdir()
    for name, sentences in (pairs or toy_pairs()).items():
        for suffix, lines in zip(("de", "en"), zip(*sentences, strict=True), strict=True):
            write_lines(folder / f"text/{name}.{suffix}", lines)
    (folder / "toy.yaml").write_text(config, encoding="utf-8")


def toy_pairs() -> dict[str, Pairs]:
    draw, pairs = random.Random(1), dict[str, Pairs]()
    for name, count, longest in (("train", 120, 9), ("dev", 12, 9), ("short", 20, 3), ("mixed", 60, 20)):
        lines = [draw.choices(list(WORDS), k=draw.randint(1, longest)) for _ in range(count)]
        pairs[name] = [(" ".join(line), " ".join(WORDS[word] for word in line)) for line in lines]
    return pairs


def write_lines(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
