"""What was measured, as JSON: records, each with what it was measured on."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FORMAT = 1


@dataclass(frozen=True)
class Record:
    """A figure of one system, once for each round. `error` says why there is none."""

    kind: str  # train, memory, search, latency, startup, roofline, profile
    model: str
    case: str  # what else the group is about: `greedy`, a command
    system: str
    title: str
    variant: str = ""
    unit: str = ""
    rounds: tuple[float, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    error: str = ""

    @property
    def group(self) -> tuple[str, str, str]:
        """Records of a group are measured in turn in one call, and replaced together."""
        return self.kind, self.model, self.case

    @property
    def label(self) -> str:
        """What stands in a table."""
        return f"{self.title} ({self.variant})" if self.variant else self.title

    @property
    def median(self) -> float:
        """Of the rounds."""
        return statistics.median(self.rounds)


def ratio(ours: Record, peer: Record, *, more_is_better: bool) -> float | None:
    """How many times better ours is: the median of the ratios of each round."""
    pairs = list(zip(ours.rounds, peer.rounds, strict=False))
    if not pairs:
        return None
    return statistics.median(a / b if more_is_better else b / a for a, b in pairs)


@dataclass(frozen=True)
class Book:
    """The records, and beside each what it was measured on."""

    entries: tuple[tuple[Record, dict[str, Any]], ...] = ()

    def with_call(self, records: Sequence[Record], context: dict[str, Any]) -> Book:
        """With the groups of these records in place of what was known of them."""
        groups = {record.group for record in records}
        kept = [entry for entry in self.entries if entry[0].group not in groups]
        return Book((*kept, *((record, context) for record in records)))

    def group(self, kind: str, model: str, case: str | None = None) -> list[Record]:
        """The records of a kind and a model, of one case or of all."""
        return [
            record
            for record, _ in self.entries
            if record.kind == kind and record.model == model and case in (None, record.case)
        ]

    def contexts(self, records: Iterable[Record]) -> list[dict[str, Any]]:
        """What these were measured on, each once."""
        wanted = set(map(id, records))
        found = list[dict[str, Any]]()
        for record, context in self.entries:
            if id(record) in wanted and context not in found:
                found.append(context)
        return found

    @classmethod
    def load(cls, path: Path) -> Book:
        """What `save` wrote; nothing when there is no such file."""
        if not path.is_file():
            return cls()
        content = json.loads(path.read_text("utf-8"))
        contexts = content["contexts"]
        entries = []
        for entry in content["records"]:
            entry["rounds"] = tuple(entry["rounds"])
            context = contexts[entry.pop("context")]
            entries.append((Record(**entry), context))
        return cls(tuple(entries))

    def save(self, path: Path) -> None:
        """Write it, whole or not at all."""
        contexts = self.contexts(record for record, _ in self.entries)
        records = [{**asdict(record), "context": contexts.index(context)} for record, context in self.entries]
        content = {"format": FORMAT, "contexts": contexts, "records": records}
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        partial.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", "utf-8")
        partial.replace(path)
