"""The work of `seq2attn reproduce`: corpus, trainings, evaluation and report. One that was stopped can be resumed."""

from dataclasses import replace
from pathlib import Path

from seq2attn.config.plugin import plugin_modules
from seq2attn.data.corpora import fetch_corpus
from seq2attn.errors import RunError, UserError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.load import load_experiment
from seq2attn.inference.synthetic_corpus import SyntheticCorpus
from seq2attn.io.files import remove_dir
from seq2attn.io.terminal import Log
from seq2attn.options import TranslationOptions
from seq2attn.sweep.recipe import Recipe
from seq2attn.sweep.record import RESULT_FILE, read_record
from seq2attn.sweep.report import write_report
from seq2attn.sweep.run_sweep import FinishedRun, lock_sweep, run_sweep, write_leaderboard
from seq2attn.visualization.figure import check_picture


def reproduce(
    recipe: Recipe, jobs: int, log: Log, *, mirror: Path | None = None, redo: bool = False
) -> tuple[str, list[FinishedRun]]:
    """The report of a recipe as Markdown, and the trainings that failed.

    Raises DataError if the corpus, or a text of it, cannot be fetched; RunError for trainings of another config, or
    translations of other models, unless `redo`, which repeats them; UserError for a mirror for a recipe without a
    corpus, and for figures without matplotlib.
    """
    folder = recipe.config.folder
    if recipe.config.figures:
        check_picture(folder / "figure.svg")
    if recipe.config.corpus is not None:
        fetched = fetch_corpus(recipe.config.corpus, recipe.corpus_folder, mirror=mirror)
        log(f"{recipe.corpus_folder}: {len(fetched.new)} files new, {len(fetched.present)} already right")
    elif mirror is not None:
        raise UserError(f"{recipe.plan.path}: has no `corpus` to copy from ``mirror``")
    with lock_sweep(folder) as lock:
        failures = _train(recipe, jobs, lock, log, redo=redo)
        write_leaderboard(recipe.plan, log)
        markdown = write_report(recipe)
    log(f"report: {folder / 'report.md'} (and .json)")
    return markdown, failures


def _train(recipe: Recipe, jobs: int, lock: int, log: Log, *, redo: bool) -> list[FinishedRun]:
    """Train all trials, those that train on translations of the teacher last; return the trainings that failed."""
    students, folder = recipe.students, recipe.distilled_folder
    if folder.exists() and not redo and any(read_record(run.folder) is None for run in recipe.teachers):
        raise RunError(
            f"{folder}: holds translations of other models; repeat them by ``redo``, or give another `folder`"
        )
    others = tuple(trial for trial in recipe.plan.trials if trial not in students)
    failures = run_sweep(replace(recipe.plan, trials=others), jobs, lock, log, redo=redo)
    if not students:
        return failures
    if any(failure.run in recipe.teachers for failure in failures):
        names, note = ", ".join(student.name for student in students), ""
        if redo:
            note = "; former results are removed, as they are of translations of other models"
            for run in replace(recipe.plan, trials=students).runs:
                (run.folder / RESULT_FILE).unlink(missing_ok=True)
        log(f"{names}: not trained, as a training of the teacher failed{note}")
        return failures
    if redo:
        remove_dir(folder)
    _distill(recipe, log)
    return failures + run_sweep(replace(recipe.plan, trials=students), jobs, lock, log, redo=redo)


def _distill(recipe: Recipe, log: Log) -> None:
    """Translate the training text of the teacher with all of its models as an ensemble (Kim & Rush 2016)."""
    experiment = recipe.teachers[0].trial.experiment
    first, *others = (run.folder for run in recipe.teachers)
    allowed, device = [*plugin_modules(experiment)], experiment.training.device
    options = TranslationOptions(ensemble=others, allow_code=allowed, device=device)
    train = experiment.data.train[0]
    text = train.files[0]
    log(f"{recipe.distilled_folder}: translations of {text} by {', '.join(map(str, recipe.teachers))}")
    corpus, run = SyntheticCorpus(recipe.distilled_folder, text, "source", train.tag), RunDirectory(first)
    report = corpus.make(run, load_experiment(run, options), options)
    log(f"{recipe.distilled_folder}: {report}")
