"""The work of `seq2attn reproduce`: corpus, trainings, evaluation and report. One that was stopped can be resumed."""

from __future__ import annotations

from pathlib import Path

from seq2attn.data.corpora import fetch_corpus
from seq2attn.data.train_tokenizers import Log
from seq2attn.errors import UserError
from seq2attn.reproduction.recipe import Recipe
from seq2attn.reproduction.report import write_report
from seq2attn.sweep.run_sweep import FinishedRun, run_sweep, write_leaderboard
from seq2attn.visualization.figure import check_picture


def reproduce(
    recipe: Recipe, jobs: int, log: Log, *, mirror: Path | None = None, redo: bool = False
) -> tuple[str, list[FinishedRun]]:
    """The report of a recipe as Markdown, and the trainings that failed.

    Raises:
        DataError: the corpus, or a text of it, cannot be fetched.
        RunError: trainings of another config, unless `redo`, which repeats them.
        UserError: a mirror for a recipe without a corpus; figures without matplotlib.
    """
    folder = recipe.config.folder
    if recipe.config.figures:
        check_picture(folder / "figure.svg")
    if recipe.config.corpus is not None:
        fetched = fetch_corpus(recipe.config.corpus, recipe.corpus_folder, mirror=mirror)
        log(f"{recipe.corpus_folder}: {len(fetched.new)} files new, {len(fetched.present)} already right")
    elif mirror is not None:
        raise UserError(f"{recipe.plan.path}: has no `corpus` to copy from --mirror")
    failures = run_sweep(recipe.plan, jobs, log, redo=redo)
    write_leaderboard(recipe.plan, log)
    markdown = write_report(recipe)
    log(f"report: {folder / 'report.html'} (and .md, .json)")
    return markdown, failures
