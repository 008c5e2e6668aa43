"""docs/performance.md: its tables are made from docs/performance.json, and nothing in them is typed."""

from __future__ import annotations

import re
from pathlib import Path

from benchmark.records import Book
from benchmark.setting import REPOSITORY
from benchmark.tables import table

PAGE = REPOSITORY / "docs" / "performance.md"
FIGURES = REPOSITORY / "docs" / "performance.json"
PLACE = re.compile(r"(<!-- table ([^>]*) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(page: str, book: Book) -> str:
    """The page with each `<!-- table KIND MODEL [CASE] -->` ... `<!-- end -->` as the records have it.

    MODEL is `-` for kinds that have none.
    """

    def put(found: re.Match[str]) -> str:
        kind, model, *case = found[2].split()
        text = table(book, kind, "" if model == "-" else model, " ".join(case))
        return f"{found[1]}\n{text}\n\n{found[3]}"

    return PLACE.sub(put, page)


def update(page: Path = PAGE, figures: Path = FIGURES) -> None:
    """Write the tables of the figures into the page."""
    page.write_text(filled(page.read_text("utf-8"), Book.load(figures)), "utf-8")
