"""`seq2attn average`."""

from __future__ import annotations

from typing import Annotated

import typer

from seq2attn.cli.options import AllowCode, RunDir


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
    from seq2attn.training.checkpoints.averaging import average_run

    typer.echo(average_run(run, last=last, best=best), err=True)
