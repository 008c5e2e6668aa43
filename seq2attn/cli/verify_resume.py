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
    updates: Annotated[int, typer.Option(min=12, help="Train for so many updates, twice.", metavar="N")] = 24,
) -> None:
    """Prove for a config, on this machine, that a resumed training is the one that was never interrupted.

    It trains for a few updates straight, and once more with a SIGTERM and a SIGKILL on the way; then it compares every
    tensor and every number that was logged. The exit code is 1 if anything differs. The dev set is cut to a few
    sentences, and the text is prepared anew.

    \b
    Examples:
      seq2attn verify-resume configs/phrasebook.yaml
      seq2attn verify-resume my.yaml --updates 100
    """
    from tempfile import TemporaryDirectory

    from seq2attn.config.load import load
    from seq2attn.config.trust import allow_code as allow
    from seq2attn.diagnostics.compare_runs import format_comparison_table
    from seq2attn.diagnostics.verify_resume import verify_resume as verify
    from seq2attn.experiment import ExperimentConfig

    allow(allow_code)
    experiment = load(config, ExperimentConfig, overrides)
    with TemporaryDirectory(prefix="seq2attn-") as folder:
        rows = verify(experiment, Path(folder).resolve(), lambda line: typer.echo(line, err=True), updates=updates)
    typer.echo(format_comparison_table(rows))
    same = all(row.is_identical for row in rows)
    typer.echo(f"\n{'identical' if same else 'NOT identical'}, on this machine, with this PyTorch and as many threads")
    if not same:
        raise typer.Exit(1)
