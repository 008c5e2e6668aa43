"""`seq2attn sweep`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from seq2attn.cli.options import AllowCode, Overrides


def sweep(
    config: Annotated[Path, typer.Argument(metavar="SWEEP", help="A sweep's YAML file.", show_default=False)],
    overrides: Overrides,
    allow_code: AllowCode,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Trainings side by side.", metavar="N", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and list the trials, and stop.")] = False,
    leaderboard: Annotated[
        bool, typer.Option("--leaderboard", help="Train nothing; write the leaderboard of what is finished.")
    ] = False,
    redo: Annotated[
        bool, typer.Option("--redo", help="Do trainings anew whose config has changed, rather than refuse.")
    ] = False,
) -> None:
    """Train the trials of a grid with several seeds each, and write a leaderboard.

    Started again, it goes on where it was stopped. The leaderboard is in the sweep's folder, as Markdown, JSON and
    a page. The exit code is 1 if a training failed; the others are finished all the same.

    \b
    Examples:
      seq2attn sweep configs/sweeps/phrasebook.yaml --dry-run
      seq2attn sweep configs/sweeps/phrasebook.yaml --jobs 2
      seq2attn sweep configs/sweeps/phrasebook.yaml --set seeds=[1,2,3]
      seq2attn sweep configs/sweeps/phrasebook.yaml --leaderboard
    """
    from tqdm import tqdm

    from seq2attn.config.trust import allow_code as allow
    from seq2attn.sweep.plan import load_plan
    from seq2attn.sweep.run_sweep import describe_plan, run_sweep, write_leaderboard

    allow(allow_code)
    plan = load_plan(config, overrides)
    if dry_run:
        typer.echo(describe_plan(plan))
        return

    def log(line: str) -> None:
        tqdm.write(line, file=sys.stderr)

    failed = [] if leaderboard else run_sweep(plan, jobs or plan.sweep.jobs, log, redo=redo)
    typer.echo(write_leaderboard(plan, log), nl=False)
    if failed:
        log(f"{len(failed)} training{'s' * (len(failed) > 1)} failed:")
        for ended in failed:
            log(f"  {ended.training}: {ended.failure_reason}")
        raise typer.Exit(1)
