"""`seq2attn verify-resume`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from seq2attn.cli.options import AllowCode, ConfigPath, Overrides


def verify_resume(
    config: ConfigPath,
    overrides: Overrides,
    allow_code: AllowCode,
    updates: Annotated[int, typer.Option(min=12, help="Number of updates of both trainings.", metavar="N")] = 24,
) -> None:
    """Verify on this machine that a resumed training of a config equals an uninterrupted one, bit for bit.

    The config is trained for a few updates without interruption, and again with a SIGTERM and a SIGKILL in between.
    All tensors and all logged values of both runs are compared. The exit code is 1 if anything differs. Only a few
    sentences of the dev set are used, and the text is prepared again.

    \b
    Examples:
      seq2attn verify-resume configs/phrasebook.yaml
      seq2attn verify-resume my.yaml --updates 100
    """
    from tempfile import TemporaryDirectory

    from seq2attn.diagnostics import verify_resume as verification
    from seq2attn.diagnostics.compare_runs import format_comparison_table
    from seq2attn.experiment import load_config

    experiment = load_config(config, overrides)
    with TemporaryDirectory(prefix="seq2attn-") as folder:
        rows = verification.verify_resume(
            experiment, Path(folder).resolve(), partial(typer.echo, err=True), updates=updates
        )
    typer.echo(format_comparison_table(rows))
    same = all(row.is_identical for row in rows)
    typer.echo(f"\n{'identical' if same else 'NOT identical'}, on this machine, with this PyTorch and as many threads")
    if not same:
        raise typer.Exit(1)
