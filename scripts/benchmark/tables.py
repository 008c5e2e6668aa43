"""Records as Markdown tables, and docs/performance.md, whose tables are written from docs/performance.json."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmark.records import Book, Record, ratio
from benchmark.setting import REPOSITORY

MORE_IS_BETTER = {"train": True, "search": True, "memory": False}
Column = tuple[str, Callable[[Record], str]]
OURS = "ours"
PAGE = REPOSITORY / "docs" / "performance.md"
FIGURES = REPOSITORY / "docs" / "performance.json"
PLACE = re.compile(r"(<!-- table ([^>]*) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(book: Book, kind: str, model: str, case: str | None = None) -> str:
    """The table of a group with its metadata, or a note that it was not measured."""
    records = book.group(kind, model, case)
    if not records:
        return "Not measured yet."
    return _with_notes(book, records, comparison(records, more_is_better=MORE_IS_BETTER[kind]))


def comparison(records: Sequence[Record], *, more_is_better: bool) -> str:
    """A row per system: median, range, and the factor by which ours is better."""
    ours = next((r for r in records if r.system == OURS and r.rounds and not r.error), None)
    unit = next((r.unit for r in records if r.unit), "")
    extra = [column for column in _columns() if any(column[1](record) for record in records)]
    rows = [["", unit, "min-max", "ours is", *(name for name, _ in extra)]]
    for record in sorted(records, key=lambda r: (bool(r.error), _order(r, more_is_better))):
        times = ratio(ours, record, more_is_better=more_is_better) if ours and not record.error else None
        figures = (
            [f"not measured: {_short(record.error)}", "", ""]
            if record.error or not record.rounds
            else [_number(record.median), _spread(record), "" if times is None else f"{times:.2f}x"]
        )
        name = f"**{record.label}**" if record.system == OURS else record.label
        rows.append([name, *figures, *(column(record) for _, column in extra)])
    return markdown(rows)


def _columns() -> list[Column]:
    def fact(name: str, form: Callable[[Any], str]) -> Callable[[Record], str]:
        return lambda record: form(record.facts[name]) if name in record.facts else ""

    return [
        ("tokens/update", fact("tokens_an_update", "{:,}".format)),
        ("updates/s", fact("updates_a_second", "{:.2f}".format)),
        ("tokens/sentence", fact("mean_tokens", "{:.1f}".format)),
        ("max", fact("most_tokens", str)),
        ("BLEU", fact("bleu", "{:.2f}".format)),
        ("identical", fact("same_as_ours", "{:.1%}".format)),
        ("peak MiB", fact("peak_mib", "{:,}".format)),
        ("", lambda record: record.note),
    ]


def _with_notes(book: Book, records: Iterable[Record], text: str) -> str:
    notes = []
    for context in book.contexts(records):
        versions = sorted(
            {f"{name} {version}" for packages in context["versions"].values() for name, version in packages.items()}
        )
        machine = f"{context['processor']}, {context['cores']} cores, {context['threads']} threads"
        if gpu := context.get("gpu"):
            machine = ", ".join(
                [gpu["name"], *(f"{name} {gpu[name]}" for name in ("driver", "CUDA", "cuDNN")), machine]
            )
        software = f"commit {context['commit']}, Python {context['python']}, {', '.join(versions)}"
        notes.append(f"{context['date']}, {machine}; {software}: `{context['command']}`")
    return "\n\n".join([text, *notes])


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with a heading row; all columns but the first are right-aligned."""
    head, *body = rows
    lines = [f"| {' | '.join(head)} |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in body)])


def _order(record: Record, more_is_better: bool) -> float:
    if not record.rounds:
        return 0.0
    return -record.median if more_is_better else record.median


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _spread(record: Record) -> str:
    return f"{_number(min(record.rounds))}-{_number(max(record.rounds))}"


def _short(error: str) -> str:
    line = error.replace("|", "/").split("\n")[0]
    return line if len(line) <= 120 else line[:117] + "..."


def fill(page: str, book: Book) -> str:
    """The page with a table in each `<!-- table KIND MODEL [CASE] -->` ... `<!-- end -->`.

    MODEL is `-` for kinds without a model.
    """

    def replace(match: re.Match[str]) -> str:
        kind, model, *case = match[2].split()
        text = table(book, kind, "" if model == "-" else model, " ".join(case))
        return f"{match[1]}\n{text}\n\n{match[3]}"

    return PLACE.sub(replace, page)


def update_page(page: Path = PAGE, figures: Path = FIGURES) -> None:
    """Write the tables into the page."""
    page.write_text(fill(page.read_text("utf-8"), Book.load(figures)), "utf-8")
