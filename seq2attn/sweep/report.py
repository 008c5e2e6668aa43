"""A leaderboard as Markdown, and as an HTML page that needs no network."""

from __future__ import annotations

from dataclasses import asdict

from seq2attn.evaluation.metrics import SAMPLES
from seq2attn.io.tables import format_table
from seq2attn.sweep.leaderboard import Leaderboard, LeaderboardRow, SeedStatistics, TestSetScores
from seq2attn.sweep.significance import LEVEL
from seq2attn.visualization.html_page import render_page

MARKS = {"better": "▲", "worse": "▼", "no difference": "="}


def leaderboard_html(board: Leaderboard) -> str:
    """The page: a table that can be sorted by any column."""
    return render_page("seq2attn.sweep", {**asdict(board), "notes": _notes(board), "marks": MARKS})


def leaderboard_markdown(board: Leaderboard) -> str:
    """A table with a row per trial, the best first, and notes on it."""
    heads = ["trial", *(f"BLEU {name}" for name in board.sets)]
    if board.rows:
        heads += [f"{name}: difference, p" for name in board.sets]
    heads += ["parameters", "training, min", "sentences/s"]
    table = format_table([heads, *map(_row, board.rows)], markdown=True)
    return "\n\n".join([f"# {board.name}", table, *_notes(board)]) + "\n"


def _notes(board: Leaderboard) -> list[str]:
    """Explanations of the figures, one paragraph each."""
    sets = " and ".join(f"{name} ({size:,} sentences)" for name, size in board.sets.items())
    seeds = len(board.seeds)
    spread_rule = " and by more than ± of either" if seeds > 1 else ""
    paragraphs = [
        f"{len(board.rows)} trials, each trained with {seeds} seed{'s' * (seeds > 1)}; test sets: {sets}."
        " Sorted by the mean BLEU on the first."
        + (" ± is the standard deviation over the seeds (n - 1)." if seeds > 1 else ""),
        f"The difference is the mean BLEU minus that of the baseline, {board.baseline}. p is of sacreBLEU's"
        f" paired bootstrap ({SAMPLES['bootstrap'][1]:,} resamples of the test sentences) between trainings with the"
        f" same seed, the largest over the seeds; ▲ better and ▼ worse than the baseline with every seed at p < {LEVEL}"
        f"{spread_rule},"
        " = neither. p is not corrected for the number of trials; it measures the choice of sentences, not of seeds.",
        "Times are measured in the process of each training and include validation; speed is that of the"
        " config's search on all test sets, in batches of sentences of similar length.",
        *(f"Measured on: {condition}." for condition in board.conditions),
        *(f"{name}: `{signature}`" for name, signature in board.signatures.items()),
    ]
    if board.missing:
        paragraphs.append(f"Not finished: {', '.join(board.missing)}.")
    return paragraphs


def _row(row: LeaderboardRow) -> list[str]:
    name = f"**{row.name}** (baseline)" if row.is_baseline else row.name
    scores = row.sets.values()
    return [
        name,
        *(_mean(one.bleu) for one in scores),
        *(_difference(one) for one in scores),
        f"{row.parameters:,}",
        f"{row.seconds.mean / 60:.1f}",
        " / ".join(f"{one.sentences_per_second.mean:,.0f}" for one in scores),
    ]


def _mean(values: SeedStatistics) -> str:
    return f"{values.mean:.2f}" + ("" if values.std is None else f" ± {values.std:.2f}")


def _difference(scores: TestSetScores) -> str:
    if scores.overall is None:
        return ""
    p = scores.overall.p_value
    confidence = "seeds disagree" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"
    return f"{scores.overall.difference:+.2f}, {confidence} {MARKS[scores.overall.outcome]}"
