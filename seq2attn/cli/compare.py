"""`seq2attn compare`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from seq2attn.options import AllowCode, Overwrite, RunDirs, Tag


def compare(
    runs: RunDirs,
    allow_code: AllowCode,
    source: Annotated[
        Path | None, typer.Option(help="The file of `evaluate --source`, for its translations.", metavar="FILE")
    ] = None,
    reference: Annotated[
        list[Path] | None, typer.Option(help="Reference translations of --source. Repeatable.", metavar="FILE")
    ] = None,
    tag: Tag = None,
    test: Annotated[
        Literal["bootstrap", "randomization"],
        typer.Option(help="Significance test: paired bootstrap, or paired approximate randomization."),
    ] = "bootstrap",
    examples: Annotated[
        int, typer.Option(min=0, help="Number of sentences whose translations differ most.", metavar="N")
    ] = 5,
    output_format: Annotated[
        Literal["text", "markdown", "json"], typer.Option("--format", help="Format of the output.")
    ] = "text",
    html: Annotated[Path | None, typer.Option(help="Write a page for the browser too.", metavar="FILE")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Compare evaluated runs: significance, BLEU by length, words by frequency, sentences that differ most.

    All runs are compared with the first, on the translations that `seq2attn evaluate` wrote.

    \b
    Examples:
      seq2attn compare runs/before runs/after
      seq2attn compare runs/a runs/b runs/c --html comparison.html
      seq2attn compare runs/a runs/b --source new.de --reference new.en --format markdown
    """
    from seq2attn.errors import UserError
    from seq2attn.evaluation.compare import compare_translations
    from seq2attn.evaluation.compare_report import comparison_html, comparison_text
    from seq2attn.io.outputs import check_output, output

    if len(runs) < 2 or len({run.resolve() for run in runs}) < len(runs):
        raise UserError("give two or more different run directories")
    check_output(html, "compare", source, *(reference or ()), overwrite=overwrite)
    comparison = compare_translations(runs, source, tuple(reference or ()), tag, test=test, num_examples=examples)
    if html is not None:
        with output(html, "compare") as file:
            file.write(comparison_html(comparison).encode())
    if output_format == "json":
        typer.echo(json.dumps(asdict(comparison), ensure_ascii=False, indent=1))
    else:
        typer.echo(comparison_text(comparison, markdown=output_format == "markdown"))
