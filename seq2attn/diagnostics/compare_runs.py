"""Bitwise comparison of two trainings of one config: tensors, numbers and log lines, without timings."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from seq2attn.io.tables import format_table
from seq2attn.io.weights import load_tensors
from seq2attn.run_directory import RunDirectory
from seq2attn.training.checkpoints.retention import validated_checkpoints
from seq2attn.training.metrics_logger import (
    LOG_FILE,
    METRICS_FILE,
    SAMPLES_FILE,
    SESSION_MARK,
    TIMING_METRICS,
    TIMING_PATTERN,
)

Items: TypeAlias = Mapping[str, Tensor | str]
"""Tensors or texts by name."""


@dataclass(frozen=True)
class ComparisonRow:
    """Comparison of one kind of items of two runs."""

    name: str
    num_items: int
    difference: str = ""  # the first

    @property
    def is_identical(self) -> bool:
        """True if all items are equal bit for bit."""
        return not self.difference


def compare_runs(one: RunDirectory, other: RunDirectory) -> list[ComparisonRow]:
    """The comparison of everything but timings."""
    return [_compare(name, items(one), items(other)) for name, items in ITEMS.items()]


def format_comparison_table(rows: Iterable[ComparisonRow]) -> str:
    """A line per row, and the first differences below."""
    rows = list(rows)
    cells = [(row.name, "identical" if row.is_identical else "DIFFERENT", f"{row.num_items:,}") for row in rows]
    differences = [f"\n{row.name}: {row.difference}" for row in rows if row.difference]
    return "\n".join([format_table([("compared", "", "how many"), *cells], num_text_columns=2), *differences])


def _weights(run: RunDirectory) -> Items:
    return {
        f"update {checkpoint.train_state.update}: {name}": tensor
        for checkpoint in validated_checkpoints(run.folder)
        for name, tensor in load_tensors(checkpoint.model_path).items()
    }


def _training_state(run: RunDirectory) -> Items:
    return {
        f"update {checkpoint.train_state.update}: {name}": repr(value)
        for checkpoint in validated_checkpoints(run.folder)
        for name, value in {
            **asdict(checkpoint.train_state),
            **checkpoint.optimizer_scalars,
            "digest of frozen weights": checkpoint.frozen,
        }.items()
        if name not in TIMING_METRICS
    }


def _metrics(run: RunDirectory) -> Items:
    lines = map(json.loads, _lines(run, METRICS_FILE).values())
    return _numbered(json.dumps({k: v for k, v in line.items() if k not in TIMING_METRICS}) for line in lines)


def _log(run: RunDirectory) -> Items:
    lines = (TIMING_PATTERN.sub("", line) for line in _lines(run, LOG_FILE).values())
    return _numbered(line for line in lines if not line.startswith(SESSION_MARK))


ITEMS: dict[str, Callable[[RunDirectory], Items]] = {
    "weights": _weights,
    "optimizer": lambda run: {**load_tensors(validated_checkpoints(run.folder)[-1].optimizer_path)},
    "training state": _training_state,
    "metrics": _metrics,
    "log": _log,
    "samples": lambda run: _lines(run, SAMPLES_FILE),
    "weights that translate": lambda run: {**load_tensors(run.weights_path)},
    "their origin": lambda run: {"origin": json.dumps(run.weights_origin())},
}
"""Compared items by their name in the table."""


def _lines(run: RunDirectory, name: str) -> dict[str, str]:
    path = run.folder / name
    return _numbered(path.read_text(encoding="utf-8").split("\n")[:-1] if path.is_file() else [])


def _numbered(lines: Iterable[str]) -> dict[str, str]:
    return {f"line {number}": line for number, line in enumerate(lines, start=1)}


def _compare(name: str, one: Items, other: Items) -> ComparisonRow:
    for key in dict.fromkeys([*one, *other]):
        if difference := _difference(one.get(key), other.get(key)):
            return ComparisonRow(name, len(one), f"{key}: {difference}")
    return ComparisonRow(name, len(one))


def _difference(one: Tensor | str | None, other: Tensor | str | None) -> str:
    """Description of the difference of two items; empty for equal ones."""
    texts = _describe(one), _describe(other)
    if texts[0] != texts[1]:
        return f"{texts[0]}\n  but: {texts[1]}"
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return ""
    if torch.equal(*(tensor.flatten().view(torch.uint8) for tensor in (one, other))):
        return ""
    count, largest = (one != other).sum().item(), (one.double() - other.double()).abs().max().item()
    return f"{count} of {one.numel()} numbers differ, by up to {largest:.3g}"


def _describe(item: Tensor | str | None) -> str:
    if isinstance(item, Tensor):
        return f"{tuple(item.shape)} of {item.dtype}"
    return "nothing" if item is None else item
