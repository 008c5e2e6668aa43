"""`seq2attn train`."""

from __future__ import annotations

from typing import Annotated

import typer

from seq2attn.cli.options import ConfigPath, Overrides


def train(
    config: ConfigPath,
    overrides: Overrides,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint of the run.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Build the model without any data, print its parts, and stop.")
    ] = False,
) -> None:
    """Train the model of a config. What it makes is kept in the config's `run` directory.

    \b
    Examples:
      seq2attn train configs/phrasebook.yaml
      seq2attn train my.yaml --set training.batch.tokens=2048 --set run=runs/small
      seq2attn train my.yaml --resume
      torchrun --nproc-per-node=4 -m seq2attn train my.yaml
    """
    from seq2attn.config.load import load
    from seq2attn.experiment import Experiment

    experiment = load(config, Experiment, overrides)
    if dry_run:
        from seq2attn.describe import dry_run as describe

        typer.echo(describe(experiment))
        return
    from seq2attn.training.train import train as start

    start(experiment, go_on=resume)
