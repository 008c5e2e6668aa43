"""Evaluations for people: tables and the picture of BLEU by length."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from seq2attn.evaluation.evaluate import TestSetResult
from seq2attn.evaluation.metrics import length_table, score_table
from seq2attn.visualization.curves import draw_bleu_by_length


def as_tables(results: Sequence[TestSetResult]) -> str:
    """Scores with their signatures, BLEU by source length (sets differ in lengths), and the speed of decoding."""
    parts = [
        score_table({result.name: result.scores for result in results}),
        *(length_table({result.name: result.by_length}) for result in results),
        "\n".join(
            f"{result.name}: {result.sentences} sentences in {result.seconds:.1f} s,"
            f" {result.sentences / result.seconds:.1f} sentences/s, {result.num_tokens / result.seconds:.0f} tokens/s"
            for result in results
        ),
    ]
    return "\n\n".join(parts)


def draw_by_length(results: Sequence[TestSetResult], path: Path) -> None:
    """BLEU by source length, a line for each test set."""
    draw_bleu_by_length({result.name: result.by_length for result in results}, path)
