"""`seq2attn train`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2attn.cli.options import AllowCode, ConfigPath, Overrides

if TYPE_CHECKING:
    from seq2attn.experiment import ExperimentConfig


def train(
    config: ConfigPath,
    overrides: Overrides,
    allow_code: AllowCode,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint of the run; there must be one.")
    ] = False,
    resume_if_exists: Annotated[
        bool,
        typer.Option("--resume-if-exists", help="Go on from the newest checkpoint, or begin if there is none."),
    ] = False,
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
    """Train the model of a config. What it makes is kept in the config's `run_dir`.

    SIGTERM and Ctrl-C end it after the update it is at, saved; a second one at once. The exit code is then 143 or 130,
    and 75 when the time of `training.time_limit` is over.

    \b
    Examples:
      seq2attn train configs/phrasebook.yaml
      seq2attn train my.yaml --set training.batch.tokens=2048 --set run_dir=runs/small
      seq2attn train my.yaml --resume
      seq2attn train my.yaml --resume-if-exists --set "training.time_limit=175 minutes"
      torchrun --nproc-per-node=4 -m seq2attn train my.yaml
    """
    from seq2attn.config.load import load
    from seq2attn.config.trust import allow_code as allow
    from seq2attn.errors import TrainingInterrupted, UserError
    from seq2attn.experiment import ExperimentConfig

    if resume and resume_if_exists:
        raise UserError("give either --resume or --resume-if-exists, not both")
    allow(allow_code)
    experiment = load(config, ExperimentConfig, overrides)
    if dry_run:
        from seq2attn.models.summary import dry_run_summary as describe

        typer.echo(describe(experiment.model, experiment.tokenizer))
        return
    from seq2attn.training.train import train as start

    _check_device(experiment, config, overrides)
    try:
        start(
            experiment,
            resume=resume or ("if-exists" if resume_if_exists else False),
            new_dev_set=new_dev_set,
        )
    except TrainingInterrupted as stopped:
        again = ["seq2attn", "train", str(config), *(f"--set={value}" for value in overrides), "--resume"]
        typer.echo(f"go on with: {shlex.join(again)}", err=True)
        raise typer.Exit(stopped.exit_code) from None


def _check_device(experiment: ExperimentConfig, config: Path, overrides: Sequence[str]) -> None:
    """Raises ConfigError, with its place, for a `training.device` that is not there."""
    from seq2attn.config.base import FieldError
    from seq2attn.config.load import errors_at
    from seq2attn.errors import UserError
    from seq2attn.training.distributed import training_device

    try:
        training_device(experiment.training.device)
    except UserError as error:
        mistakes = [FieldError("training.device", str(error))]
        raise errors_at(config, type(experiment), mistakes, overrides) from None
