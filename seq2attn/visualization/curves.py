"""Curves: BLEU by sentence length, and loss and BLEU during training."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2attn.errors import DataError
from seq2attn.evaluation.metrics import LengthBucket
from seq2attn.visualization.figure import COLORS, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
                **_style(i),
                label=name,
            )
        upper.set_ylabel("BLEU")
        _finish(upper)
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


def draw_training(metrics_jsonl: Sequence[Path], path: Path) -> None:
    """Draw loss and BLEU by update, from the `metrics.jsonl` of runs, which are named by their folders.

    Raises DataError with file and line for an invalid record, UserError as `figure` does.
    """
    runs = {file.parent.name or str(file): _read_metrics(file) for file in metrics_jsonl}
    has_bleu = any(record.get("bleu") is not None for run in runs.values() for record in run)
    with figure(path, width=11 if has_bleu else 6, height=4) as canvas:
        panels = canvas.subplots(1, 2 if has_bleu else 1, squeeze=False)[0]
        for i, (name, records) in enumerate(runs.items()):
            panels[0].plot(*_series(records, "train", "loss"), color=_style(i)["color"], linewidth=1, alpha=0.45)
            panels[0].plot(*_series(records, "validation", "loss"), **_style(i), label=name)
            if has_bleu:
                panels[1].plot(*_series(records, "validation", "bleu"), **_style(i), label=name)
        for axes, title in zip(panels, ("loss (thin: training, marked: validation)", "validation BLEU"), strict=False):
            axes.set_xlabel("update")
            axes.set_title(title, loc="left", fontsize=10)
            _finish(axes)


def _style(i: int) -> dict[str, Any]:
    color, marker = COLORS[i % len(COLORS)], MARKERS[i % len(MARKERS)]
    return {"color": color, "marker": marker, "markersize": 4.5, "linewidth": 1.6}


def _finish(axes: Axes) -> None:
    axes.grid(axis="y", color="#E4E4E4", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.legend(frameon=False)


def _series(records: list[dict[str, Any]], kind: str, key: str) -> tuple[list[float], list[float]]:
    points = [(r["update"], r[key]) for r in records if r["kind"] == kind and r.get(key) is not None]
    return [x for x, _ in points], [y for _, y in points]


def _read_metrics(file: Path) -> list[dict[str, Any]]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: cannot be read: {error}") from error
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            if number == len(lines) and not line.endswith("\n"):
                break  # a run that is still writing the line
            raise DataError(f"{file}:{number}: not JSON: {error.msg}") from error
        if not isinstance(record, dict) or "kind" not in record or "update" not in record:
            raise DataError(f"{file}:{number}: expected an object with `kind` and `update`")
        records.append(record)
    if not records:
        raise DataError(f"{file}: has no records yet")
    return records
