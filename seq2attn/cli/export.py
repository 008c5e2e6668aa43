"""`seq2attn export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2attn.cli.options import AllowCode, RunDir


def export(
    run: RunDir,
    allow_code: AllowCode,
    to: Annotated[str, typer.Option(metavar="ctranslate2", help="The engine to export to.")],
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="Where to. [RUN_DIR/ctranslate2]", show_default=False),
    ] = None,
    quantization: Annotated[
        str | None,
        typer.Option(metavar="TYPE", help="Data type of the weights: float32, float16 or int8. [float32]"),
    ] = None,
    verify_with: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Lines to translate on both sides. [the first 200 sources of the dev set]"),
    ] = None,
) -> None:
    """Make a trained run ready for another engine, and check that both translate the same.

    The same sentences are translated on both sides, and it is told how many tokens agree and how far scores differ.
    In float32 at least 99 % must agree; else the command fails and leaves nothing behind.

    \b
    Examples:
      seq2attn export runs/phrasebook --to ctranslate2
      seq2attn export runs/phrasebook /srv/models/phrasebook --to ctranslate2 --quantization int8
      seq2attn translate runs/phrasebook --engine ctranslate2 "Das Haus ist alt."
    """
    from seq2attn.engines.export_run import export_run
    from seq2attn.engines.targets import get_target
    from seq2attn.run_directory import RunDirectory

    target = get_target(to)
    where = folder or run / target.name
    report = export_run(
        RunDirectory(run, allow_code), target, where, quantization=quantization, verify_with=verify_with
    )
    typer.echo(report)
    typer.echo(f"exported to {where}", err=True)
