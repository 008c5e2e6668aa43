"""BLEU by sentence length as a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from seq2attn.metrics.sacrebleu_metrics import LengthBucket
from seq2attn.visualization.figure import COLORS, figure

MARKERS = "osD^vPX"


def draw_bleu_by_length(lines: Mapping[str, Sequence[LengthBucket]], path: Path) -> None:
    """Draw BLEU of each line by source length, above histograms of the lengths: one for all lines of a test set.

    Raises UserError as `figure` does.
    """
    histograms = dict[tuple[tuple[int, int, int], ...], str]()  # names of the first lines by their test sets
    for name, buckets in lines.items():
        histogram = tuple((bucket.lowest, bucket.highest, bucket.sentences) for bucket in buckets)
        histograms.setdefault(histogram, name)
    with figure(path, width=7, height=3.7 + 0.9 * len(histograms)) as canvas:
        ratios = [4, *[1] * len(histograms)]
        upper, *lower = canvas.subplots(len(ratios), 1, sharex=True, height_ratios=ratios)
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
        for axes, (histogram, name) in zip(lower, histograms.items(), strict=True):
            lefts, widths = [start - 0.5 for start, _, _ in histogram], [end - start + 1 for start, end, _ in histogram]
            bars = axes.bar(lefts, [n for *_, n in histogram], widths, align="edge", color="#C8C8C8", edgecolor="w")
            axes.bar_label(bars, fontsize=8, color="#666666", padding=1)
            axes.margins(y=0.3)
            axes.set_yticks([])
            axes.set_ylabel("sentences")
            if len(histograms) > 1:
                axes.set_title(name, loc="right", fontsize=8, color="#666666", pad=2)
        units = dict.fromkeys(bucket.unit for buckets in lines.values() for bucket in buckets)
        lower[-1].set_xlabel(f"source length in {' or '.join(units)}")
