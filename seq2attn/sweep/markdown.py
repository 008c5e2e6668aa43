"""A leaderboard as a Markdown table, with all that one needs to know to read it."""

from __future__ import annotations

from seq2attn.io.tables import format_table
from seq2attn.sweep.leaderboard import Leaderboard, LeaderboardRow, SeedStatistics, TestSetScores
from seq2attn.sweep.significance import LEVEL, RESAMPLES

MARKS = {"better": "▲", "worse": "▼", "no difference": "="}


def as_markdown(board: Leaderboard) -> str:
    """The board: a row a trial, the best first."""
    heads = ["trial", *(f"BLEU {name}" for name in board.sets)]
    if board.rows:
        heads += [f"{name}: difference, p" for name in board.sets]
    heads += ["parameters", "training, min", "sentences/s"]
    lines = [
        f"# {board.name}",
        "",
        format_table([heads, *map(_row, board.rows)], markdown=True),
        "",
        *(line for note in format_notes(board) for line in (note, "")),
    ]
    return "\n".join(lines).rstrip() + "\n"


def format_notes(board: Leaderboard) -> list[str]:
    """What the numbers are, a paragraph each."""
    sets = " and ".join(f"{name} ({size:,} sentences)" for name, size in board.sets.items())
    seeds = len(board.seeds)
    spread_rule = " and by more than ± of either" if seeds > 1 else ""
    paragraphs = [
        f"{len(board.rows)} trials, each trained with {seeds} seed{'s' * (seeds > 1)}; test sets: {sets}."
        " Sorted by the mean BLEU on the first."
        + (" ± is the standard deviation over the seeds (n - 1)." if seeds > 1 else ""),
        f"The difference is the mean BLEU less that of the baseline, {board.baseline}. p is of sacreBLEU's"
        f" paired bootstrap ({RESAMPLES:,} resamples of the test sentences) between trainings of the same seed, the"
        f" largest over the seeds; ▲ better and ▼ worse than the baseline with every seed at p < {LEVEL}{spread_rule},"
        " = neither. p is not corrected for the number of trials, and tells of the choice of sentences, not of seeds.",
        "Times are as measured in the process of each training, validations included; speed is of the"
        " config's search on all test sets, sentences alike in length together.",
        *(f"Measured on: {way}." for way in board.conditions),
        *(f"{name}: `{signature}`" for name, signature in board.signatures.items()),
    ]
    if board.missing:
        paragraphs.append(f"Not finished: {', '.join(board.missing)}.")
    return paragraphs


def _row(row: LeaderboardRow) -> list[str]:
    name = f"**{row.name}** (baseline)" if row.is_baseline else row.name
    speeds = [on.sentences_per_second.mean for on in row.sets.values()]
    return [
        name,
        *(format_statistics(on.bleu) for on in row.sets.values()),
        *(format_difference(on) for on in row.sets.values()),
        f"{row.parameters:,}",
        f"{row.seconds.mean / 60:.1f}",
        " / ".join(f"{speed:,.0f}" for speed in speeds),
    ]


def format_statistics(number: SeedStatistics) -> str:
    """Mean and standard deviation."""
    return f"{number.mean:.2f}" + ("" if number.std is None else f" ± {number.std:.2f}")


def format_difference(on: TestSetScores) -> str:
    """How much better than the baseline, with which p-value, and what follows."""
    if on.verdict is None:
        return ""
    found, p = on.verdict, on.verdict.p_value
    sure = "seeds disagree" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"
    return f"{found.difference:+.2f}, {sure} {MARKS[found.verdict]}"
