"""Tables of docs/performance.md, written from docs/performance.json."""

from __future__ import annotations

import re
from pathlib import Path

from benchmark.records import Book
from benchmark.setting import REPOSITORY
from benchmark.tables import table

PAGE = REPOSITORY / "docs" / "performance.md"
FIGURES = REPOSITORY / "docs" / "performance.json"
PLACE = re.compile(r"(<!-- table ([^>]*) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill(page: str, book: Book) -> str:
    """The page with a table in each `<!-- table KIND MODEL [CASE] -->` ... `<!-- end -->`.

    MODEL is `-` for kinds without a model.
    """

    def replace(match: re.Match[str]) -> str:
        kind, model, *case = match[2].split()
        text = table(book, kind, "" if model == "-" else model, " ".join(case))
        return f"{match[1]}\n{text}\n\n{match[3]}"

    return PLACE.sub(replace, page)


def update(page: Path = PAGE, figures: Path = FIGURES) -> None:
    """Write the tables into the page."""
    page.write_text(fill(page.read_text("utf-8"), Book.load(figures)), "utf-8")
