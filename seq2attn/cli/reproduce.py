"""`seq2attn reproduce`."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from seq2attn.options import AllowCode, SweepOverrides


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
    from seq2attn.errors import UserError
    from seq2attn.sweep.recipe import load_recipe
    from seq2attn.sweep.reproduce import reproduce
    from seq2attn.sweep.run_sweep import describe_plan, log_failures

    given = {"--redo": redo, "--jobs": jobs is not None, "--mirror": mirror is not None}
    if dry_run and (unused := [option for option, is_given in given.items() if is_given]):
        verb = "has" if len(unused) == 1 else "have"
        raise UserError(f"{' and '.join(unused)} {verb} no effect with --dry-run, which trains nothing")
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
