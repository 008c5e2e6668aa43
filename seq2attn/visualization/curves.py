"""BLEU by sentence length as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from seq2attn.evaluation.metrics import LengthBucket
from seq2attn.visualization.figure import COLORS, figure

MARKERS = "osD^vPX"


def draw_bleu_by_length(lines: Mapping[str, Sequence[LengthBucket]], path: Path) -> None:
    """Draw BLEU of each system by source length, above a histogram of the lengths.

    The sentence counts are those of the first system. Raises UserError as `figure` does.
    """
    with figure(path, width=7, height=4.6) as canvas:
        upper, lower = canvas.subplots(2, 1, sharex=True, height_ratios=[4, 1])
        for i, (name, buckets) in enumerate(lines.items()):
            upper.plot(
                [bucket.mean_length for bucket in buckets],
                [bucket.score.value for bucket in buckets],
                color=COLORS[i % len(COLORS)],
                marker=MARKERS[(i + i // len(COLORS)) % len(MARKERS)],  # another one when the colors are repeated
                markersize=4.5,
                linewidth=1.6,
                label=name,
            )
        upper.set_ylabel("BLEU")
        upper.grid(axis="y", color="#E4E4E4", linewidth=0.7)
        upper.set_axisbelow(True)
        upper.legend(frameon=False)
        first = next(iter(lines.values()))
        lefts = [bucket.lowest - 0.5 for bucket in first]
        widths = [bucket.highest - bucket.lowest + 1 for bucket in first]
        bars = lower.bar(lefts, [b.sentences for b in first], widths, align="edge", color="#C8C8C8", edgecolor="w")
        lower.bar_label(bars, fontsize=8, color="#666666", padding=1)
        lower.margins(y=0.3)
        units = dict.fromkeys(bucket.unit for buckets in lines.values() for bucket in buckets)
        lower.set_yticks([])
        lower.set_ylabel("sentences")
        lower.set_xlabel(f"source length in {' or '.join(units)}")
