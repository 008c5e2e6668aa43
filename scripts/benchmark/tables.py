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
    """The table of a group with its metadata, or a note that it was not measured."""
    records = book.group(kind, model, case)
    if not records:
        return "Not measured yet."
    if kind == "roofline":
        return _with_notes(book, records, _roofline(records))
    if kind == "profile":
        return _with_notes(book, records, profile(records, book.group("roofline", model, STEP)))
    text = comparison(records, more_is_better=MORE_IS_BETTER[kind])
    roof = book.group("roofline", model, TRAINING)
    if kind == "train" and roof and book.contexts(roof) == book.contexts(records):  # of the same call
        text += "\n\n" + roofline_share(records, roof)
    return _with_notes(book, records, text)


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


def roofline_share(records: Sequence[Record], roof: Sequence[Record]) -> str:
    """Share of the roofline that ours reaches."""
    measured = [record for record in records if record.system == OURS and record.rounds]
    if not measured or not roof:
        return ""
    ours = max(measured, key=lambda record: record.median)
    shares = [
        f"{ours.median / r.facts['ideal']:.0%} of the {r.facts['ideal']:,} target tokens/s that "
        f"{r.median:.0f} GFLOP/s ({what}) would allow"
        for r in roof
        for name, what in ((PRODUCT, "a large product"), (LINEAR, "its own linear layers"))
        if r.system == name and (name == PRODUCT or ours.model == "t")  # whose layers they are
    ]
    return f"Ours reaches {', and '.join(shares)}."


def profile(records: Sequence[Record], roof: Sequence[Record]) -> str:
    """Milliseconds and share of each part, and the share of the roofline."""
    parts = [record for record in records if record.unit == "ms an update"]
    whole = sum(record.median for record in parts)
    rows = [["part of an update", "ms", "share"]]
    for record in sorted(parts, key=lambda record: -record.median):
        rows.append([record.title, f"{record.median:.1f}", f"{record.median / whole:.1%}"])
    rows.append(["all", f"{whole:.1f}", ""])
    rate = next(record for record in records if record.system == OURS)
    speed = f"{rate.median:,.0f} target tokens/s with profiling."
    return "\n\n".join(filter(None, [markdown(rows), speed, roofline_share(records, roof)]))


def _roofline(records: Sequence[Record]) -> str:
    model = records[0].model
    name, rows_measured = ("T", "4,096 rows") if model == "t" else (f"`{model}`", "product")
    rows = [[rows_measured, "GFLOP/s", f"{name} at this rate, target tokens/s"]]
    for record in records:
        rows.append([record.title, f"{record.median:.1f}", f"{record.facts['ideal']:,}"])
    mflop = records[0].facts["mflop_a_word"]
    return (
        f"{markdown(rows)}\n\n{name} needs {mflop:.1f} MFLOP per target token, forward and backward, without padding."
    )


def _columns() -> list[Column]:
    def fact(name: str, form: Callable[[Any], str]) -> Callable[[Record], str]:
        return lambda record: form(record.facts[name]) if name in record.facts else ""

    return [
        ("tokens/update", fact("tokens_an_update", "{:,}".format)),
        ("updates/s", fact("updates_a_second", "{:.2f}".format)),
        ("mean ms", fact("mean_ms", "{:.1f}".format)),
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
