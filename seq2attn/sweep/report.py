"""A report of a reproduction: scores of trainings beside the published ones, and their outcome.

report.md       the tables, with links to the figures
report.json     all numbers
figures/        BLEU by source length, and alignments (Bahdanau et al. 2015, figures 2 and 3)
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from seq2attn.config.plugin import plugin_modules
from seq2attn.data.readers import read_pairs
from seq2attn.evaluation.evaluate import EvaluationSet, read_sets
from seq2attn.inference.input_checks import InputChecker
from seq2attn.inference.load import load
from seq2attn.io.files import FORMAT_VERSION, write_bytes, write_json
from seq2attn.io.tables import format_table
from seq2attn.metrics.significance import paired_scores
from seq2attn.options import AttentionSelection, TranslationOptions
from seq2attn.sweep.leaderboard import SeedStatistics
from seq2attn.sweep.plan import TrialRun
from seq2attn.sweep.recipe import Recipe
from seq2attn.sweep.record import Records, RunRecord, conditions, read_records, trainings, unfinished
from seq2attn.version import __version__
from seq2attn.visualization.attention import draw_attention
from seq2attn.visualization.curves import draw_bleu_by_length

NUM_ALIGNMENTS = 4
ALIGNMENT_LENGTHS = range(10, 21)
"""Number of words of the sentences whose alignments are drawn (Bahdanau et al. 2015, section 5.2.1)."""
ReproductionOutcome = Literal["reached", "within the interval", "not reached"]
OUTCOME_RULE = (
    "Reached: the mean over the seeds is at least the published score. Within the interval: it is lower by no more than"
    " half of the 95 % interval over sentences (sacreBLEU's bootstrap, mean over the seeds). Not reached: otherwise."
)


@dataclass(frozen=True)
class ReproducedScore:
    """Score of a trial on a test set beside the published one."""

    trial: str
    test_set: str
    published: float
    ours: SeedStatistics
    by_seed: dict[int, float]
    interval: float  # half the width of the 95 % interval over sentences, mean over the seeds
    outcome: ReproductionOutcome
    signature: str
    published_gain: float | None  # from the trial above; None unless the recipe is a ladder
    gain: float | None


def reproduction_outcome(published: float, ours: float, interval: float) -> ReproductionOutcome:
    """The outcome on a mean score with half the width of its interval, by `OUTCOME_RULE`."""
    if ours >= published:
        return "reached"
    return "within the interval" if ours + interval >= published else "not reached"


def reproduced_scores(recipe: Recipe, records: Records) -> list[ReproducedScore]:
    """Scores of all finished trials that have a published one, in the order of the recipe."""
    experiment = recipe.plan.baseline.experiment
    tests = {test.name: test for test in read_sets(experiment.data.test, experiment.evaluation)}
    scores = list[ReproducedScore]()
    above = dict[str, ReproducedScore]()
    for trial, published in recipe.config.published.items():
        for name, number in published.items() if records.get(trial) else ():
            score = _score(recipe, trial, number, tests[name], records[trial], above.get(name))
            scores.append(score)
            if recipe.config.is_ladder:
                above[name] = score
    return scores


def _score(
    recipe: Recipe,
    trial: str,
    published: float,
    test: EvaluationSet,
    records: Mapping[int, RunRecord],
    above: ReproducedScore | None,
) -> ReproducedScore:
    translations = {str(seed): record.sets[test.name].translations for seed, record in records.items()}
    (scores,) = paired_scores(test.metrics, translations, test.references, [recipe.config.metric]).values()
    by_seed = {int(seed): score.value for seed, score in scores.items()}
    ours = SeedStatistics.from_values([*by_seed.values()])
    interval = statistics.fmean(score.interval or 0.0 for score in scores.values())
    common = by_seed.keys() & above.by_seed.keys() if above else ()
    return ReproducedScore(
        trial=trial,
        test_set=test.name,
        published=published,
        ours=ours,
        by_seed=by_seed,
        interval=interval,
        outcome=reproduction_outcome(published, ours.mean, interval),
        signature=next(iter(scores.values())).signature,
        published_gain=published - above.published if above else None,
        gain=statistics.fmean(by_seed[seed] - above.by_seed[seed] for seed in common) if above and common else None,
    )


def write_report(recipe: Recipe) -> str:
    """Write the report of all finished trainings to the folder of the recipe; return the Markdown."""
    config, folder = recipe.config, recipe.config.folder
    records = read_records(recipe.plan)
    scores = reproduced_scores(recipe, records)
    missing = unfinished(recipe.plan, records)
    pictures = {
        caption: str(path.relative_to(folder))
        for caption, path in draw_figures(recipe, records, folder / "figures").items()
    }
    parts = [
        *(f"# {config.title}", config.paper),
        *("## Scores", _score_table(scores, is_ladder=config.is_ladder), _bullets(_score_notes(recipe, scores))),
        *("## Deviations from the paper", _bullets(_deviations(recipe))),
        *("## Trainings", _training_table(records), _bullets(_training_notes(records, missing))),
        *(["## Figures"] * bool(pictures)),
        *(f"![{caption}]({path})" for caption, path in pictures.items()),
    ]
    markdown = "\n\n".join(filter(None, parts)) + "\n"
    write_bytes(folder / "report.md", markdown.encode())
    content = {
        "format": FORMAT_VERSION,
        "version": __version__,
        "recipe": config.model_dump(mode="json"),
        "overrides": recipe.overrides,
        "rule": OUTCOME_RULE,
        "scores": [asdict(score) for score in scores],
        "trainings": {
            trial: {seed: asdict(record.training) for seed, record in by_seed.items()}
            for trial, by_seed in records.items()
        },
        "missing": missing,
        "figures": pictures,
    }
    write_json(folder / "report.json", content)
    return markdown


def _bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return format_table([heads, *rows], num_text_columns=2, markdown=True) if rows else ""


def _score_table(scores: Sequence[ReproducedScore], *, is_ladder: bool) -> str:
    """A row per trial and test set; those of a ladder have the differences from the trial above."""
    gains = ["gain"] * is_ladder
    heads = ["trial", "test set", "published", *gains, "ours", "interval", *gains, "outcome"]
    rows = []
    for score in scores:
        published_gain, gain = (
            ["" if value is None else f"{value:+.2f}"] * is_ladder for value in (score.published_gain, score.gain)
        )
        published, interval = f"{score.published:g}", f"± {score.interval:.2f}"
        numbers = [published, *published_gain, str(score.ours), interval, *gain]
        rows.append([score.trial, score.test_set, *numbers, score.outcome])
    return _table(heads, rows)


def _score_notes(recipe: Recipe, scores: Sequence[ReproducedScore]) -> list[str]:
    counts = {len(score.by_seed) for score in scores}
    seeds = max(counts, default=0)
    spread = "one seed" if seeds else "none yet"
    if seeds > 1:
        number = f"{seeds}" if len(counts) == 1 else "the finished"
        spread = f"mean ± standard deviation (n - 1) over {number} seeds"
    notes = [f"Published: {recipe.config.published_in}. Ours: {spread}.", OUTCOME_RULE]
    notes += [f"Signature: `{signature}`" for signature in dict.fromkeys(score.signature for score in scores)]
    if recipe.config.metric == "paper_bleu":
        notes.append("paper_bleu is BLEU of the tokens of the paper, and not comparable with BLEU of detokenized text.")
    for score in scores if seeds > 1 else ():
        values = ", ".join(f"{value:.2f}" for value in score.by_seed.values())
        notes.append(f"By seed: {score.trial}, {score.test_set}: {values}")
    return notes


def _deviations(recipe: Recipe) -> list[str]:
    changes = [change for change in recipe.overrides if not change.startswith(("seeds=", "jobs=", "folder="))]
    return [*recipe.config.deviations, *(f"Set on the command line: `{change}`." for change in changes)]


def _training_table(records: Records) -> str:
    heads = ["trial", "seed", "parameters", "updates", "epochs", "minutes"]
    rows = []
    for trial, seed, training in trainings(records):
        numbers = f"{training.parameters:,}", f"{training.updates:,}", f"{training.epochs:.1f}"
        rows.append([trial, str(seed), *numbers, f"{training.seconds / 60:.1f}"])
    return _table(heads, rows)


def _training_notes(records: Records, missing: Sequence[str]) -> list[str]:
    hours = sum(training.seconds for *_, training in trainings(records)) / 3600
    return [
        f"{hours:.1f} hours of training and validation in all.",
        *(f"{condition}." for condition in conditions(records)),
        f"seq2attn {__version__}; all metrics, with the significance of differences: leaderboard.md",
        *([f"Not finished: {', '.join(missing)}."] if missing else []),
    ]


def draw_figures(recipe: Recipe, records: Records, folder: Path) -> dict[str, Path]:
    """The figures of the recipe as SVG files, by their captions; those of finished trainings only."""
    figures = dict[str, Path]()
    first = {trial: next(iter(by_seed.items())) for trial, by_seed in records.items() if by_seed}
    baseline = recipe.plan.baseline
    if recipe.config.figures and first:
        folder.mkdir(parents=True, exist_ok=True)
    if "bleu-by-length" in recipe.config.figures and first:
        for name in baseline.experiment.data.test:
            lines = {f"{trial} seed {seed}": record.sets[name].by_length for trial, (seed, record) in first.items()}
            path = folder / f"bleu-by-length-{name}.svg"
            draw_bleu_by_length(lines, path)
            figures[f"BLEU by source length, {name}"] = path
    if "alignments" in recipe.config.figures and baseline.name in first:
        figures |= _draw_alignments(TrialRun(baseline, first[baseline.name][0]), folder)
    return figures


def _draw_alignments(run: TrialRun, folder: Path) -> dict[str, Path]:
    """Attention weights of a training for the first sentences of usual length; the mean of all heads."""
    pairs = (pair for corpus in run.experiment.data.test.values() for pair in read_pairs(corpus))
    sources = [source for (source, _), _ in pairs if len(source.split()) in ALIGNMENT_LENGTHS]
    allowed = plugin_modules(run.experiment)  # the recipe names them
    translator = load(run.folder, TranslationOptions(allow_code=[*allowed]))
    checker = InputChecker()  # its warnings are those of the evaluation
    translations = translator.translate_iterable(sources[:NUM_ALIGNMENTS], attention=True, checker=checker)
    figures = dict[str, Path]()
    for number, translation in enumerate(translations, start=1):
        if (weights := translation.attention_weights) is not None:  # None of a plug-in without attention
            figures[f"Alignment {number}, {run}"] = path = folder / f"alignment-{number}.svg"
            draw_attention(weights, path, AttentionSelection(head="mean", whole_words=True))
    return figures
