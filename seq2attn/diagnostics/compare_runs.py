"""Comparison of what two trainings of one config left behind: every tensor, every number, every line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
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
"""Tensors or texts by where they stand."""


@dataclass(frozen=True)
class ComparisonRow:
    """One kind of thing in two runs."""

    name: str
    num_items: int
    difference: str = ""  # the first

    @property
    def is_identical(self) -> bool:
        """Whether there is no difference, in any bit."""
        return not self.difference


def compare_runs(one: RunDirectory, other: RunDirectory) -> list[ComparisonRow]:
    """All that two trainings of the same config must have in common: all but timings."""
    return [_compared(name, items(one), items(other)) for name, items in ITEMS.items()]


def format_comparison_table(rows: Iterable[ComparisonRow]) -> str:
    """A line for each, and the first differences below."""
    rows = list(rows)
    cells = [(row.name, "identical" if row.is_identical else "DIFFERENT", f"{row.num_items:,}") for row in rows]
    differences = [f"\n{row.name}: {row.difference}" for row in rows if row.difference]
    table = format_table([("compared", "", "how many"), *cells], num_text_columns=2)
    return "\n".join([table, *differences])


def _weights(run: RunDirectory) -> Items:
    return {
        f"update {checkpoint.train_state.update}: {name}": tensor
        for checkpoint in validated_checkpoints(run.folder)
        for name, tensor in load_tensors(checkpoint.model_path).items()
    }


def _optimizer(run: RunDirectory) -> Items:
    newest = validated_checkpoints(run.folder)[-1]
    return {**load_tensors(newest.optimizer_path)}


def _training_state(run: RunDirectory) -> Items:
    return {
        f"update {checkpoint.train_state.update}: {name}": repr(value)
        for checkpoint in validated_checkpoints(run.folder)
        for name, value in {**asdict(checkpoint.train_state), **checkpoint.optimizer_scalars}.items()
        if name not in TIMING_METRICS
    }


def _metrics(run: RunDirectory) -> Items:
    lines = map(json.loads, _text(run, METRICS_FILE))
    return _numbered([json.dumps({k: v for k, v in line.items() if k not in TIMING_METRICS}) for line in lines])


def _log(run: RunDirectory) -> Items:
    lines = [TIMING_PATTERN.sub("", line) for line in _text(run, LOG_FILE)]
    return _numbered([line for line in lines if not line.startswith(SESSION_MARK)])


ITEMS: dict[str, Callable[[RunDirectory], Items]] = {
    "weights": _weights,
    "optimizer": _optimizer,
    "training state": _training_state,
    "metrics": _metrics,
    "log": _log,
    "samples": lambda run: _numbered(_text(run, SAMPLES_FILE)),
    "weights that translate": lambda run: {**load_tensors(run.weights_path)},
    "their origin": lambda run: {"origin": json.dumps(run.weights_origin())},
}
"""What is compared, by its name in the table."""


def _text(run: RunDirectory, name: str) -> list[str]:
    path = run.folder / name
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.is_file() else []


def _numbered(lines: Sequence[str]) -> Items:
    return {f"line {number}": line for number, line in enumerate(lines, start=1)}


def _compared(name: str, one: Items, other: Items) -> ComparisonRow:
    for place in dict.fromkeys([*one, *other]):
        if difference := _difference(one.get(place), other.get(place)):
            return ComparisonRow(name, len(one), f"{place}: {difference}")
    return ComparisonRow(name, len(one))


def _difference(one: Tensor | str | None, other: Tensor | str | None) -> str:
    """The difference of two items in words; empty for equal ones."""
    if isinstance(one, Tensor) and isinstance(other, Tensor) and _described(one) == _described(other):
        if torch.equal(*(tensor.flatten().view(torch.uint8) for tensor in (one, other))):
            return ""
        count, largest = (one != other).sum().item(), (one.double() - other.double()).abs().max().item()
        return f"{count} of {one.numel()} numbers differ, by up to {largest:.3g}"
    texts = _described(one), _described(other)
    return "" if texts[0] == texts[1] else f"{texts[0]}\n  but: {texts[1]}"


def _described(item: Tensor | str | None) -> str:
    if isinstance(item, Tensor):
        return f"{tuple(item.shape)} of {item.dtype}"
    return "nothing" if item is None else item
