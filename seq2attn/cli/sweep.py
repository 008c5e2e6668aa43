"""`seq2attn sweep` and `seq2attn reproduce`."""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from seq2attn.errors import UserError
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
    from seq2attn.sweep.plan import load_plan
    from seq2attn.sweep.run_sweep import describe_plan, lock_sweep, log_failures, run_sweep, write_leaderboard

    if dry_run or leaderboard:
        given = {"--redo": redo, "--jobs": jobs is not None, "--leaderboard": dry_run and leaderboard}
        _check_effect("--dry-run" if dry_run else "--leaderboard", given)
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


def reproduce(
    recipe: Annotated[str, typer.Argument(metavar="NAME", help="A file of configs/reproduce, or the path of one.")],
    overrides: SweepOverrides,
    allow_code: AllowCode,
    seeds: Annotated[int | None, typer.Option(min=1, help="Train with the seeds 1 to N.", metavar="N")] = None,
    mirror: Annotated[
        Path | None, typer.Option(help="Copy the corpus from DIR/CORPUS instead of the network.", metavar="DIR")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Number of parallel trainings.", metavar="N")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and list the trainings, and stop.")] = False,
    redo: Annotated[bool, typer.Option("--redo", help="Repeat trainings whose config has changed.")] = False,
) -> None:
    """Reproduce the numbers of a paper: fetch the corpus, train with several seeds, evaluate, and write a report.

    The report has the published scores, ours with intervals and an outcome, and all deviations from the paper. It is
    written to the folder of the recipe, as Markdown and JSON. A reproduction that was stopped is resumed by the
    same command. The exit code is 1 if a training failed.

    \b
    Examples:
      seq2attn reproduce multi30k-wu2021
      seq2attn reproduce multi30k-wu2021 --seeds 1 --mirror ../corpora
      seq2attn reproduce mine/recipe.yaml --dry-run
    """
    from tqdm import tqdm

    from seq2attn.config.load import with_options
    from seq2attn.sweep.recipe import load_recipe
    from seq2attn.sweep.reproduce import reproduce
    from seq2attn.sweep.run_sweep import describe_plan, log_failures

    if dry_run:
        _check_effect("--dry-run", {"--redo": redo, "--jobs": jobs is not None, "--mirror": mirror is not None})
    numbers = None if seeds is None else [*range(1, seeds + 1)]
    loaded = load_recipe(recipe, with_options(overrides, {"seeds": ("seeds", numbers), "jobs": ("jobs", jobs)}))
    if dry_run:
        typer.echo(describe_plan(loaded.plan))
        return
    log = partial(tqdm.write, file=sys.stderr)
    report, failures = reproduce(loaded, loaded.config.jobs, log, mirror=mirror, redo=redo)
    typer.echo(report, nl=False)
    if failures:
        log_failures(failures, log)
        raise typer.Exit(1)


def _check_effect(only: str, given: Mapping[str, bool]) -> None:
    """Raises UserError for options that are given beside `only`, with which nothing is trained."""
    if unused := [option for option, is_given in given.items() if is_given]:
        verb = "has" if len(unused) == 1 else "have"
        raise UserError(f"{' and '.join(unused)} {verb} no effect with {only}, which trains nothing")
