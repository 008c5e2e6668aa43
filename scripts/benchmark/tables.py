"""Records as Markdown tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmark.records import Book, Record, ratio
from benchmark.roof import LINEAR, PRODUCT, STEP, TRAINING

MORE_IS_BETTER = {"train": True, "search": True, "latency": False, "startup": False, "memory": False}
Column = tuple[str, Callable[[Record], str]]
OURS = "ours"


def table(book: Book, kind: str, model: str, case: str | None = None) -> str:
    """The table of a group, with what stands under it; a word of regret where nothing was measured."""
    records = book.group(kind, model, case)
    if not records:
        return "Not measured yet."
    if kind == "roofline":
        return _with_notes(book, records, _roofline(records))
    if kind == "profile":
        return _with_notes(book, records, profile(records, book.group("roofline", model, STEP)))
    text = compared(records, more_is_better=MORE_IS_BETTER[kind])
    roof = book.group("roofline", model, TRAINING)
    if kind == "train" and roof and book.contexts(roof) == book.contexts(records):  # of the same call
        text += "\n\n" + reached(records, roof)
    return _with_notes(book, records, text)


def compared(records: Sequence[Record], *, more_is_better: bool) -> str:
    """A row for each system: the median, the spread, and how many times better ours is."""
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


def reached(records: Sequence[Record], roof: Sequence[Record]) -> str:
    """The share of the roofline that ours reaches."""
    measured = [record for record in records if record.system == OURS and record.rounds]
    if not measured or not roof:
        return ""
    ours = max(measured, key=lambda record: record.median)
    shares = [
        f"{ours.median / r.facts['ideal']:.0%} of the {r.facts['ideal']:,} target tokens a second that "
        f"{r.median:.0f} GFLOP/s ({what}) would allow"
        for r in roof
        for name, what in ((PRODUCT, "a large product"), (LINEAR, "its own linear layers"))
        if r.system == name
    ]
    return f"Ours reaches {', and '.join(shares)}."


def profile(records: Sequence[Record], roof: Sequence[Record]) -> str:
    """Each part's milliseconds and share, and the share of the roofline."""
    parts = [record for record in records if record.unit == "ms an update"]
    whole = sum(record.median for record in parts)
    rows = [["part of an update", "ms", "share"]]
    for record in sorted(parts, key=lambda record: -record.median):
        rows.append([record.title, f"{record.median:.1f}", f"{record.median / whole:.1%}"])
    rows.append(["all", f"{whole:.1f}", ""])
    rate = next(record for record in records if record.system == OURS)
    told = f"{rate.median:,.0f} target tokens a second with the clocks in."
    return "\n\n".join(filter(None, [markdown(rows), told, reached(records, roof)]))


def _roofline(records: Sequence[Record]) -> str:
    rows = [["4,096 rows", "GFLOP/s", "T at this rate, target tokens/s"]]
    for record in records:
        rows.append([record.title, f"{record.median:.1f}", f"{record.facts['ideal']:,}"])
    return markdown(rows) + (
        f"\n\nT needs {records[0].facts['mflop_a_word']:.1f} MFLOP a target token, forward and back, without padding."
    )


def _columns() -> list[Column]:
    def fact(name: str, form: Callable[[Any], str]) -> Callable[[Record], str]:
        return lambda record: form(record.facts[name]) if name in record.facts else ""

    return [
        ("tokens an update", fact("tokens_an_update", "{:,}".format)),
        ("updates/s", fact("updates_a_second", "{:.2f}".format)),
        ("mean ms", fact("mean_ms", "{:.1f}".format)),
        ("pieces a sentence", fact("mean_tokens", "{:.1f}".format)),
        ("most", fact("most_tokens", str)),
        ("BLEU", fact("bleu", "{:.2f}".format)),
        ("as ours", fact("same_as_ours", "{:.1%}".format)),
        ("peak MiB", fact("peak_mib", "{:,}".format)),
        ("", lambda record: record.note),
    ]


def _with_notes(book: Book, records: Iterable[Record], text: str) -> str:
    told = []
    for context in book.contexts(records):
        versions = sorted(
            {f"{name} {version}" for packages in context["versions"].values() for name, version in packages.items()}
        )
        machine = f"{context['processor']}, {context['cores']} cores, {context['threads']} threads"
        software = f"commit {context['commit']}, Python {context['python']}, {', '.join(versions)}"
        told.append(f"{context['date']}, {machine}; {software}: `{context['command']}`")
    return "\n\n".join([text, *told])


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Rows, the first of them heads, as a table; all columns but the first are figures, and stand to the right."""
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
