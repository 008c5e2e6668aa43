"""`seq2attn prepare`, `seq2attn train` and `seq2attn average`."""

import os
import shlex
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from seq2attn.options import AllowCode, ConfigPath, Overrides, RunDir


def prepare(config: ConfigPath, overrides: Overrides, allow_code: AllowCode) -> None:
    """Check the text of a config, train its tokenizers and encode it. `train` does this if it was not done before.

    \b
    Examples:
      seq2attn prepare configs/phrasebook.yaml
    """
    from seq2attn.experiment.experiment_config import load_config
    from seq2attn.training.prepare_run import prepare

    prepare(load_config(config, overrides), partial(typer.echo, err=True))


def train(
    config: ConfigPath,
    overrides: Overrides,
    allow_code: AllowCode,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume from the newest checkpoint; there must be one.")
    ] = False,
    resume_if_exists: Annotated[
        bool, typer.Option("--resume-if-exists", help="Resume from the newest checkpoint, or start if there is none.")
    ] = False,
    new_dev_set: Annotated[
        bool,
        typer.Option(
            "--new-dev-set", help="With --resume: use another dev set than before, and rank checkpoints by it."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the size of the model, memory and time of a training, and stop.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="With --dry-run: all parts of the model with their shapes.")
    ] = False,
) -> None:
    """Train the model of a config. All files are written to the config's `run_dir`.

    SIGTERM and Ctrl-C save a checkpoint after the current update and end training with exit code 143 or 130; a second
    one ends it at once. The exit code is 75 when `training.time_limit` is reached.

    \b
    Examples:
      seq2attn train configs/phrasebook.yaml
      seq2attn train my.yaml --set training.batch.tokens=2048 --set run_dir=runs/small
      seq2attn train my.yaml --resume
      seq2attn train my.yaml --resume-if-exists --set "training.time_limit=175 minutes"
      torchrun --nproc-per-node=4 -m seq2attn train my.yaml
    """
    from seq2attn.config.base import FieldError
    from seq2attn.config.load import errors_at
    from seq2attn.errors import TrainingInterrupted, UserError
    from seq2attn.experiment.experiment_config import ExperimentConfig, load_config

    if resume and resume_if_exists:
        raise UserError("give either --resume or --resume-if-exists, not both")
    if new_dev_set and not (resume or resume_if_exists):
        raise UserError("--new-dev-set has no effect on a new training; give --resume too")
    if verbose and not dry_run:
        raise UserError("--verbose has no effect without --dry-run")
    experiment = load_config(config, overrides)
    try:
        if dry_run:
            from seq2attn.training.dry_run import describe_training

            typer.echo(describe_training(experiment, is_new=not (resume or resume_if_exists), with_parts=verbose))
            return
        from seq2attn.training.train import train as run_training

        run_training(experiment, resume=resume or ("if-exists" if resume_if_exists else False), new_dev_set=new_dev_set)
    except FieldError as mistake:
        raise errors_at(config, ExperimentConfig, [mistake], overrides) from None
    except TrainingInterrupted as interruption:
        _print_resume_command(config, overrides, allow_code)
        raise typer.Exit(interruption.exit_code) from None


def _print_resume_command(config: Path, overrides: list[str], modules: list[str]) -> None:
    """The command that resumes the training, on the first process."""
    options = [*(f"--set={value}" for value in overrides), *(f"--allow-code={name}" for name in modules)]
    command = ["seq2attn", "train", str(config), *options, "--resume"]
    rank = os.environ.get("RANK")
    if rank in (None, "0"):
        how = f"with: {shlex.join(command)}" if rank is None else "by the same torchrun command, with --resume"
        typer.echo(f"resume {how}", err=True)


def average(
    run: RunDir,
    allow_code: AllowCode,
    last: Annotated[int | None, typer.Option(min=1, help="Average the newest N checkpoints.", metavar="N")] = None,
    best: Annotated[int | None, typer.Option(min=1, help="Average the best N checkpoints.", metavar="N")] = None,
) -> None:
    """Average the weights of several checkpoints, and translate with the result from then on.

    \b
    Examples:
      seq2attn average runs/phrasebook --best 3
      seq2attn average runs/phrasebook --last 5
      seq2attn average runs/phrasebook --best 1     (back to the best checkpoint)
    """
    from seq2attn.training.checkpoints.averaging import average

    typer.echo(average(run, last=last, best=best), err=True)
