"""A report on data for people: a column a corpus, and below what they should know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from seq2attn.data.concerns import concerns
from seq2attn.data.report import TEXT, DataReport, PairsReport, SideReport
from seq2attn.text.files import write_bytes


def save_summary(report: DataReport, folder: Path) -> None:
    """Write the report for people."""
    said = [f"warning: {line}" for line in concerns(report)]
    longest = "{:,} source and {:,} target tokens".format(*report.longest_kept)
    lines = [f"train: {report.filters}", f"the longest pairs kept have {longest}", "", *table(report), ""]
    write_bytes(folder / TEXT, "\n".join([*lines, *(said or ["nothing to warn about"]), ""]).encode())


def headline(report: DataReport, folder: Path) -> str:
    """The least that one should know, and where there is more."""
    source, target = (side.tokens for _, side in report.train.sides)
    return (
        f"source and target have {source.median:.0f} and {target.median:.0f} tokens in the median,"
        f" {source.most:.0f} and {target.most:.0f} at most; all of it: {folder / TEXT}"
    )


def table(report: DataReport) -> Iterator[str]:
    """A row for each thing that was counted."""
    columns = {"train": report.train, **report.measured}
    cells = [dict(_rows(pairs)) for pairs in columns.values()]
    rows = [["", *columns], *([name, *(column[name] for column in cells)] for name in cells[0])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *values in rows:
        padded = [value.rjust(width) for value, width in zip(values, widths[1:], strict=True)]
        yield "  ".join([name.ljust(widths[0]), *padded]).rstrip()


def _rows(pairs: PairsReport) -> Iterator[tuple[str, str]]:
    yield "pairs", f"{pairs.pairs:,}"
    for name, side in pairs.sides:
        yield from ((f"{name}: {what}", value) for what, value in _side_rows(side))
    ratio = pairs.ratio
    yield "target / source tokens, 1 %, median, 99 %", f"{ratio.p1:.2f} {ratio.median:.2f} {ratio.p99:.2f}"
    yield "text on one side only", f"{pairs.one_sided.lines:,}"
    yield "came before", f"{pairs.duplicates:,}"
    yield "same text on both sides", f"{pairs.identical.lines:,}"
    yield "swapped, by script", f"{pairs.swapped.lines:,}"
    for what, learnt in (("pairs", pairs.learnt_pairs), ("sources", pairs.learnt_sources)):
        yield f"{what} among the training {what}", "" if learnt is None else f"{learnt:,}"


def _side_rows(side: SideReport) -> Iterator[tuple[str, str]]:
    for what, spread in (("tokens", side.tokens), ("characters", side.characters)):
        quantiles = f"{spread.mean:.1f} {spread.median:.0f} {spread.p95:.0f} {spread.p99:.0f}"
        yield f"{what}, mean, median, 95 %, 99 %", quantiles
        yield f"{what}, most (line)", f"{spread.most:,.0f} ({spread.line})"
    yield "unknown tokens", f"{side.unknown_rate:.2%}"
    scripts, letters = side.manner.scripts, max(side.manner.letters, 1)
    shares = [(f"{count / letters:.1%} {name}", count) for name, count in scripts.items()]
    yield "scripts", ", ".join(share for share, _ in sorted(shares, key=lambda one: -one[1])[:3])
    yield "lines in another script", f"{side.other_script.lines:,}"
    odd = side.control, side.replaced, side.garbled
    yield "lines with control characters, U+FFFD, UTF-8 as Latin-1", " ".join(f"{one.lines:,}" for one in odd)
    yield "capitals", f"{side.manner.capitals:.1%}"
    yield "stops and commas that stand alone", f"{side.manner.apart:.1%}"
