"""`seq2attn train`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from seq2attn.cli.options import AllowCode, ConfigPath, Overrides

if TYPE_CHECKING:
    from seq2attn.config.trust import Trust
    from seq2attn.experiment import Experiment


class Resume(StrEnum):
    """What --resume may be told."""

    newest = "newest"
    auto = "auto"


class TrainCommand(TyperCommand):
    """`--resume` alone means the newest checkpoint; what follows it is another argument, unless it is `auto`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give `--resume` the value that it does not say."""
        told: list[str] = []
        for word in args:
            if told[-1:] == ["--resume=newest"] and word in tuple(Resume):
                told[-1] = f"--resume={word}"
            else:
                told.append("--resume=newest" if word == "--resume" else word)
        return super().parse_args(ctx, told)


def train(
    config: ConfigPath,
    overrides: Overrides,
    allow_code: AllowCode,
    resume: Annotated[
        Resume | None,
        typer.Option(
            metavar="[auto]",
            help="Go on from the newest checkpoint of the run; auto: begin if there is none.",
            show_default=False,
        ),
    ] = None,
    new_dev_set: Annotated[
        bool,
        typer.Option(
            "--new-dev-set",
            help="With --resume: take another dev set than before, and rank checkpoints anew.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Build the model without any data, print its parts, and stop.")
    ] = False,
) -> None:
    """Train the model of a config. What it makes is kept in the config's `run` directory.

    SIGTERM and Ctrl-C end it after the update it is at, saved; a second one at once. The exit code is then 143 or 130,
    and 75 when the time of `training.stop_after` is over.

    \b
    Examples:
      seq2attn train configs/phrasebook.yaml
      seq2attn train my.yaml --set training.batch.tokens=2048 --set run=runs/small
      seq2attn train my.yaml --resume
      seq2attn train my.yaml --resume auto --set training.stop_after=2h55m
      torchrun --nproc-per-node=4 -m seq2attn train my.yaml
    """
    from seq2attn.config.load import load
    from seq2attn.config.trust import Trust
    from seq2attn.experiment import Experiment

    trust = Trust(allow_code, is_full=True)
    experiment = load(config, Experiment, overrides, trust)
    if dry_run:
        from seq2attn.describe import dry_run as describe

        typer.echo(describe(experiment))
        return
    from seq2attn.errors import Stopped
    from seq2attn.training.train import train as start

    _check_device(experiment, config, overrides, trust)
    try:
        start(
            experiment,
            go_on="auto" if resume is Resume.auto else resume is Resume.newest,
            new_dev_set=new_dev_set,
        )
    except Stopped as stopped:
        again = ["seq2attn", "train", str(config), *(f"--set={value}" for value in overrides), "--resume"]
        typer.echo(f"go on with: {shlex.join(again)}", err=True)
        raise typer.Exit(stopped.code) from None


def _check_device(experiment: Experiment, config: Path, overrides: Sequence[str], trust: Trust) -> None:
    """Raises ConfigError, with its place, for a `training.device` that is not there."""
    from seq2attn.config.base import Mistake
    from seq2attn.config.load import mistaken
    from seq2attn.errors import UserError
    from seq2attn.training.distributed import training_device

    try:
        training_device(experiment.training.device)
    except UserError as error:
        mistakes = [Mistake("training.device", str(error))]
        raise mistaken(config, type(experiment), mistakes, overrides, trust) from None
