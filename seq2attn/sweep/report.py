"""A report of a reproduction as Markdown, with its numbers in JSON.

report.md       the tables, with links to the figures
report.json     all numbers
figures/        pictures
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from seq2attn.io.files import FORMAT_VERSION, write_bytes, write_json
from seq2attn.io.tables import format_table
from seq2attn.sweep.figures import draw_figures
from seq2attn.sweep.leaderboard import SeedStatistics
from seq2attn.sweep.recipe import Recipe
from seq2attn.sweep.record import Records, conditions, read_records, unfinished
from seq2attn.sweep.results import OUTCOME_RULE, ReproducedScore, reproduced_scores
from seq2attn.version import __version__


@dataclass(frozen=True)
class Section:
    """A heading, a table with its heads in the first row, a list of sentences, and pictures by caption."""

    heading: str
    table: tuple[tuple[str, ...], ...]
    items: tuple[str, ...]
    pictures: dict[str, Path]


def write_report(recipe: Recipe) -> str:
    """Write the report of all finished trainings to the folder of the recipe; return the Markdown."""
    folder, config, records = recipe.config.folder, recipe.config, read_records(recipe.plan)
    scores = reproduced_scores(recipe, records)
    pictures = draw_figures(recipe, records, folder / "figures")
    sections = [
        Section("Scores", _score_table(scores, is_ladder=config.is_ladder), _score_notes(recipe, scores), {}),
        Section("Deviations from the paper", (), _deviations(recipe), {}),
        Section("Trainings", _training_table(records), _training_notes(recipe, records), {}),
        *([Section("Figures", (), (), pictures)] if pictures else []),
    ]
    markdown = _markdown(config.title, config.paper, sections, folder)
    write_bytes(folder / "report.md", markdown.encode())
    content = {
        "format": FORMAT_VERSION,
        "version": __version__,
        "recipe": config.model_dump(mode="json"),
        "overrides": recipe.overrides,
        "rule": OUTCOME_RULE,
        "scores": [asdict(score) for score in scores],
        "trainings": {trial: {n: asdict(one.training) for n, one in by.items()} for trial, by in records.items()},
        "missing": unfinished(recipe.plan, records),
        "figures": {caption: str(path.relative_to(folder)) for caption, path in pictures.items()},
    }
    write_json(folder / "report.json", content)
    return markdown


def _score_table(scores: list[ReproducedScore], *, is_ladder: bool) -> tuple[tuple[str, ...], ...]:
    heads = ("trial", "test set", "published", *["gain"] * is_ladder, "ours", "interval", *["gain"] * is_ladder)

    def row(score: ReproducedScore) -> tuple[str, ...]:
        gains = [
            ["" if gain is None else f"{gain:+.2f}"] if is_ladder else [] for gain in (score.published_gain, score.gain)
        ]
        ours = f"{score.ours.mean:.2f}{_spread(score.ours)}"
        cells = f"{score.published:g}", *gains[0], ours, f"± {score.interval:.2f}", *gains[1]
        return (score.trial, score.test_set, *cells, score.outcome)

    return ((*heads, "outcome"), *map(row, scores))


def _spread(values: SeedStatistics) -> str:
    return "" if values.std is None else f" ± {values.std:.2f}"


def _score_notes(recipe: Recipe, scores: list[ReproducedScore]) -> tuple[str, ...]:
    counts = {len(one.by_seed) for one in scores}
    seeds = max(counts, default=0)
    number = f"{seeds}" if len(counts) == 1 else "the finished"
    several = f"mean ± standard deviation (n - 1) over {number} seeds"
    spread = several if seeds > 1 else "one seed" if seeds else "none yet"
    by_seed = (f"{one.trial}, {one.test_set}: " + ", ".join(f"{v:.2f}" for v in one.by_seed.values()) for one in scores)
    notes = [f"Published: {recipe.config.published_in}. Ours: {spread}.", OUTCOME_RULE]
    notes += [f"Signature: `{signature}`" for signature in dict.fromkeys(one.signature for one in scores)]
    if recipe.config.metric == "paper_bleu":
        notes.append("paper_bleu is BLEU of the tokens of the paper, and not comparable with BLEU of detokenized text.")
    return (*notes, *(f"By seed: {line}" for line in by_seed if seeds > 1))


def _deviations(recipe: Recipe) -> tuple[str, ...]:
    changes = [one for one in recipe.overrides if not one.startswith(("seeds=", "jobs=", "folder="))]
    return (*recipe.config.deviations, *(f"Set on the command line: `{one}`." for one in changes))


def _training_table(records: Records) -> tuple[tuple[str, ...], ...]:
    heads = ("trial", "seed", "parameters", "updates", "epochs", "minutes")
    rows = [(trial, str(seed), one.training) for trial, seeds in records.items() for seed, one in seeds.items()]
    return (
        heads,
        *(
            (*names, f"{one.parameters:,}", f"{one.updates:,}", f"{one.epochs:.1f}", f"{one.seconds / 60:.1f}")
            for *names, one in rows
        ),
    )


def _training_notes(recipe: Recipe, records: Records) -> tuple[str, ...]:
    trainings = [record.training for seeds in records.values() for record in seeds.values()]
    hours = sum(one.seconds for one in trainings) / 3600
    notes = [f"{hours:.1f} hours of training and validation in all.", *(f"{one}." for one in conditions(trainings))]
    notes += [f"seq2attn {__version__}; all metrics, with the significance of differences: leaderboard.md"]
    missing = unfinished(recipe.plan, records)
    return (*notes, *([f"Not finished: {', '.join(missing)}."] if missing else []))


def _markdown(title: str, paper: str, sections: list[Section], folder: Path) -> str:
    parts = [f"# {title}", paper]
    for section in sections:
        parts.append(f"## {section.heading}")
        if len(section.table) > 1:
            parts.append(format_table(section.table, num_text_columns=2, markdown=True))
        if section.items:
            parts.append("\n".join(f"- {item}" for item in section.items))
        parts += [f"![{caption}]({path.relative_to(folder)})" for caption, path in section.pictures.items()]
    return "\n\n".join(parts) + "\n"
