"""Tables in plain text or Markdown."""

from collections.abc import Iterable, Sequence

from tabulate import tabulate


def format_table(rows: Iterable[Sequence[str]], *, num_text_columns: int = 1, markdown: bool = False) -> str:
    """Rows of cells in columns; the first row is the heading.

    The first `num_text_columns` columns are aligned to the left, the others, of numbers, to the right.
    """
    rows = [[cell.replace("|", "\\|") for cell in row] if markdown else row for row in rows]
    sides = ["left" if column < num_text_columns else "right" for column in range(len(rows[0]))]
    text: str = tabulate(
        rows,
        headers="firstrow" if markdown else (),
        tablefmt="pipe" if markdown else "plain",
        colalign=sides,
        disable_numparse=True,
    )
    return "\n".join(line.rstrip() for line in text.split("\n"))
