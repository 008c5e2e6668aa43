"""What two trainings left behind, compared: every tensor, every number, every line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any

from torch import Tensor

from seq2attn.run import Run
from seq2attn.training.checkpoint import MODEL, TRAINING, Checkpoint
from seq2attn.training.kept import validated_checkpoints
from seq2attn.training.report import CLOCK_TEXTS, CLOCKS, LOG, MARK, METRICS, SAMPLES
from seq2attn.weights import digest_of, load_tensors

Pair = tuple[str, Mapping[str, Tensor], Mapping[str, Tensor]]
"""Of which update, and the tensors of both runs by their names."""


@dataclass(frozen=True)
class Compared:
    """One kind of thing in two runs."""

    what: str
    count: str
    digests: tuple[str, str]
    difference: str = ""  # the first, where the digests differ

    @property
    def same(self) -> bool:
        """Whether there is no difference at all."""
        return self.digests[0] == self.digests[1]


def compare(one: Run, other: Run) -> list[Compared]:
    """All that two trainings of the same config must have in common: all but what a clock says."""
    both = one, other
    kept = [validated_checkpoints(run.folder) for run in both]
    pairs = list(zip(*kept, strict=False))
    newest = [(a, b) for a, b in pairs if a.training.is_file() and b.training.is_file()]
    return [
        _lines("checkpoints", "of validations", *([c.folder.name for c in side] for side in kept)),
        _tensors("weights", [_loaded(pair, MODEL) for pair in pairs]),
        _tensors("optimiser", [_loaded(pair, TRAINING) for pair in newest]),
        _lines("training state", "numbers", *([x for c in side for x in _state(c)] for side in kept)),
        _lines("metrics", "lines", *map(_metrics, both)),
        _lines("log", "lines", *map(_log, both)),
        _lines("samples", "lines", *(_text(run, SAMPLES) for run in both)),
        _tensors("weights that translate", [("", load_tensors(one.weights), load_tensors(other.weights))]),
        _lines("their origin", "line", *([json.dumps(run.origin())] for run in both)),
    ]


def table(rows: Sequence[Compared]) -> str:
    """A line for each, and the first difference below those that have one."""
    cells = [(row.what, row.count, row.digests[0][:12], row.digests[1][:12]) for row in rows]
    head = ("compared", "how many", "straight", "interrupted")
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]

    def line(texts: Sequence[str]) -> str:
        return "  ".join(text.ljust(width) for text, width in zip(texts, widths, strict=True))

    lines = [line(head)]
    for row, texts in zip(rows, cells, strict=True):
        lines.append(f"{line(texts)}  {'identical' if row.same else 'DIFFERENT'}")
        lines += [f"  {row.difference}"] if row.difference else []
    return "\n".join(lines)


def _loaded(pair: tuple[Checkpoint, Checkpoint], name: str) -> Pair:
    one, other = (load_tensors(c.folder / name, digest=c.digests[name]) for c in pair)
    return f"update {pair[0].state.update}: ", one, other


def _state(checkpoint: Checkpoint) -> list[str]:
    numbers = {**asdict(checkpoint.state), **checkpoint.numbers}
    return [f"{name} {value!r}" for name, value in numbers.items() if name not in CLOCKS]


def _metrics(run: Run) -> list[str]:
    lines: list[dict[str, Any]] = [json.loads(line) for line in _text(run, METRICS)]
    return [json.dumps({name: v for name, v in line.items() if name not in CLOCKS}) for line in lines]


def _log(run: Run) -> list[str]:
    lines = [CLOCK_TEXTS.sub("", line) for line in _text(run, LOG)]
    return [line for line in lines if not line.startswith(MARK)]


def _text(run: Run, name: str) -> list[str]:
    path = run.folder / name
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.is_file() else []


def _lines(what: str, unit: str, one: Sequence[str], other: Sequence[str]) -> Compared:
    digests = tuple(hashlib.blake2b("\n".join(side).encode()).hexdigest() for side in (one, other))
    differing = (
        f"{number}: {a or 'nothing'}\n  but: {b or 'nothing'}"
        for number, (a, b) in enumerate(zip_longest(one, other), start=1)
        if a != b
    )
    return Compared(what, f"{len(one)} {unit}", (digests[0], digests[1]), next(differing, ""))


def _tensors(what: str, pairs: Sequence[Pair]) -> Compared:
    one, other = (
        {place + name: tensor for place, *both in pairs for name, tensor in both[side].items()}
        for side in (0, 1)
    )
    digests = digest_of(one, {}), digest_of(other, {})
    differing = (
        f"`{name}`: {_deviation(one.get(name), other.get(name))}"
        for name in dict.fromkeys([*one, *other])
        if digest_of({name: one[name]} if name in one else {}, {})
        != digest_of({name: other[name]} if name in other else {}, {})
    )
    difference = "" if digests[0] == digests[1] else next(differing, "")
    return Compared(what, f"{len(one)} tensors", digests, difference)


def _deviation(one: Tensor | None, other: Tensor | None) -> str:
    if one is None or other is None:
        return f"only in the {'interrupted' if one is None else 'straight'} run"
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"{tuple(one.shape)} of {one.dtype}, and {tuple(other.shape)} of {other.dtype}"
    differ = (one != other).sum().item()
    most = (one.double() - other.double()).abs().max().item()
    return f"{differ} of {one.numel()} numbers differ, by up to {most:.3g}"
