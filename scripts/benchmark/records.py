"""Records of measurements with their metadata, saved as JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from seq2attn.io.files import write_json

FORMAT = 1


@dataclass(frozen=True)
class Record:
    """Figures of one system, one per round, or an error."""

    kind: str  # train, memory, search
    model: str
    case: str  # further key of the group: `greedy`
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
        """Key of the records that are measured in turn in one call, and replaced together."""
        return self.kind, self.model, self.case

    @property
    def label(self) -> str:
        """Title with the variant."""
        return f"{self.title} ({self.variant})" if self.variant else self.title

    @property
    def median(self) -> float:
        """Median of the rounds."""
        return statistics.median(self.rounds)


def ratio(ours: Record, peer: Record, *, more_is_better: bool) -> float | None:
    """Factor by which ours is better: the median of the ratios of all rounds."""
    pairs = list(zip(ours.rounds, peer.rounds, strict=False))
    if not pairs:
        return None
    return statistics.median(a / b if more_is_better else b / a for a, b in pairs)


@dataclass(frozen=True)
class Book:
    """Records with their metadata."""

    entries: tuple[tuple[Record, dict[str, Any]], ...] = ()

    def with_call(self, records: Sequence[Record], context: dict[str, Any]) -> Book:
        """A copy in which these records replace their groups."""
        groups = {record.group for record in records}
        others = [entry for entry in self.entries if entry[0].group not in groups]
        return Book((*others, *((record, context) for record in records)))

    def group(self, kind: str, model: str, case: str | None = None) -> list[Record]:
        """The records of a kind and a model, of one case or of all cases."""
        return [
            record
            for record, _ in self.entries
            if record.kind == kind and record.model == model and case in (None, record.case)
        ]

    def contexts(self, records: Iterable[Record]) -> list[dict[str, Any]]:
        """The metadata of these records, each once."""
        ids = set(map(id, records))
        contexts = list[dict[str, Any]]()
        for record, context in self.entries:
            if id(record) in ids and context not in contexts:
                contexts.append(context)
        return contexts

    @classmethod
    def load(cls, path: Path) -> Book:
        """The records in a file; empty for a missing file."""
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
        """Atomic write to a file."""
        contexts = self.contexts(record for record, _ in self.entries)
        records = [{**asdict(record), "context": contexts.index(context)} for record, context in self.entries]
        content = {"format": FORMAT, "contexts": contexts, "records": records}
        write_json(path, content)
