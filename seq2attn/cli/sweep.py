"""`seq2attn sweep`."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from seq2attn.options import AllowCode, SweepOverrides


def sweep(
    config: Annotated[Path, typer.Argument(metavar="SWEEP", help="The YAML file of a sweep.")],
    overrides: SweepOverrides,
    allow_code: AllowCode,
    jobs: Annotated[int | None, typer.Option(min=1, help="Number of parallel trainings.", metavar="N")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and list the trials, and stop.")] = False,
    leaderboard: Annotated[
        bool, typer.Option("--leaderboard", help="Do not train; write the leaderboard of the finished trainings.")
    ] = False,
    redo: Annotated[bool, typer.Option("--redo", help="Repeat trainings whose config has changed.")] = False,
) -> None:
    """Train the trials of a grid with several seeds each, and write a leaderboard.

    A sweep that was stopped is resumed by the same command. The leaderboard is written to the sweep's folder, as
    Markdown, JSON and HTML. The exit code is 1 if a training failed; the others are finished all the same.

    \b
    Examples:
      seq2attn sweep configs/sweeps/phrasebook.yaml --dry-run
      seq2attn sweep configs/sweeps/phrasebook.yaml --jobs 2
      seq2attn sweep configs/sweeps/phrasebook.yaml --set seeds=[1,2,3]
      seq2attn sweep configs/sweeps/phrasebook.yaml --leaderboard
    """
    from tqdm import tqdm

    from seq2attn.config.load import with_options
    from seq2attn.errors import UserError
    from seq2attn.sweep.plan import load_plan
    from seq2attn.sweep.run_sweep import describe_plan, lock_sweep, log_failures, run_sweep, write_leaderboard

    given = {"--redo": redo, "--jobs": jobs is not None, "--leaderboard": dry_run and leaderboard}
    if (only := "--dry-run" if dry_run else "--leaderboard" if leaderboard else None) and any(given.values()):
        unused = " and ".join(option for option, is_given in given.items() if is_given)
        verb = "have" if " and " in unused else "has"
        raise UserError(f"{unused} {verb} no effect with {only}, which trains nothing")
    plan = load_plan(config, with_options(overrides, {"jobs": ("jobs", jobs)}))
    if dry_run:
        typer.echo(describe_plan(plan))
        return
    log = partial(tqdm.write, file=sys.stderr)
    if leaderboard:
        typer.echo(write_leaderboard(plan, log), nl=False)
        return
    with lock_sweep(plan.sweep.folder) as lock:
        failures = run_sweep(plan, plan.sweep.jobs, lock, log, redo=redo)
        typer.echo(write_leaderboard(plan, log), nl=False)
    if failures:
        log_failures(failures, log)
        raise typer.Exit(1)
