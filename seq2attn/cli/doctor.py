"""`seq2attn doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2attn.cli.options import AllowCode, Device, RunPath


def doctor(
    run: RunPath,
    allow_code: AllowCode,
    sentences: Annotated[
        int, typer.Option(min=1, max=100_000, help="Try the laws with so many sentences.", metavar="N")
    ] = 50,
    input_file: Annotated[
        Path | None,
        typer.Option(
            "--input",
            "-i",
            help="Take the lines of FILE. [the run's dev set]",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    device: Device = "auto",
) -> None:
    """Try the laws that search and training rely on with a run's own model, on this machine.

    Among them: a batch gives each sentence what it gets alone, cached reading is uncached reading, padding never
    matters, fused attention is its formula, scores are those of reading. A row for each tells the largest deviation
    and the sentence where it was. The exit code is 1 if a law is broken.

    \b
    Examples:
      seq2attn doctor runs/phrasebook
      seq2attn doctor runs/phrasebook --sentences 200 --device cuda
      seq2attn doctor runs/phrasebook -i input.de
    """
    from seq2attn.doctor.examine import admit, examine, healthy
    from seq2attn.doctor.findings import table
    from seq2attn.run import Run

    origin, patient = admit(Run(run, allow_code), sentences, input_file, device)
    said = f"{len(patient.sentences)} sentences of {origin}, on {patient.device}"
    typer.echo(said + (", in double precision" if patient.is_exact else ""), err=True)
    rows = examine(patient)
    typer.echo(table(rows))
    if not healthy(rows):
        raise typer.Exit(1)
