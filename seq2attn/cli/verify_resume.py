"""`seq2attn verify-resume`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2attn.cli.options import AllowCode, ConfigPath, Overrides


def verify_resume(
    config: ConfigPath,
    overrides: Overrides,
    allow_code: AllowCode,
    updates: Annotated[int, typer.Option(min=4, help="Train for so many updates, twice.", metavar="N")] = 24,
    interruptions: Annotated[
        int, typer.Option(min=1, help="Interrupt the second training so many times.", metavar="K")
    ] = 6,
    seed: Annotated[int, typer.Option(help="Draws the instants.")] = 1,
    folder: Annotated[
        Path | None,
        typer.Option(help="Train in DIR, and keep it. [a temporary one]", metavar="DIR", show_default=False),
    ] = None,
) -> None:
    """Prove for a config, on this machine, that a resumed training is the one that was never interrupted.

    It trains for a few updates straight, and once more with SIGKILL and SIGTERM at random instants, among them while
    a checkpoint is written, going on each time; then it compares every tensor and every number that was logged. The
    exit code is 1 if anything differs. The dev set is cut to a few sentences, and the text is prepared anew.

    \b
    Examples:
      seq2attn verify-resume configs/phrasebook.yaml
      seq2attn verify-resume my.yaml --updates 100 --interruptions 20 --folder runs/verified
    """
    import torch

    from seq2attn.config.load import load
    from seq2attn.config.trust import Trust
    from seq2attn.experiment import Experiment
    from seq2attn.verifying.compared import table
    from seq2attn.verifying.verify import home, relies_on
    from seq2attn.verifying.verify import verify_resume as verify

    experiment = load(config, Experiment, overrides, Trust(allow_code, is_full=True))
    with home(folder) as at:
        rows = verify(
            experiment,
            at,
            lambda line: typer.echo(line, err=True),
            updates=updates,
            times=interruptions,
            seed=seed,
        )
    typer.echo(table(rows))
    same = all(row.same for row in rows)
    typer.echo(f"{'identical' if same else 'NOT identical'}: {relies_on(torch.get_num_threads())}")
    if not same:
        raise typer.Exit(1)
