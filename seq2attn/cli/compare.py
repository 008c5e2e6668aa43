"""`seq2attn compare`."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from seq2attn.cli.flatten import takes
from seq2attn.options import AllowCode, Overwrite, RunDirs
from seq2attn.options.runs import CompareOptions


@takes("runs allow_code source references tag test examples output_format html overwrite")
def compare(
    runs: RunDirs,
    allow_code: AllowCode,
    options: CompareOptions,
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
    from seq2attn.evaluation.compare import compare
    from seq2attn.evaluation.compare_report import comparison_html, comparison_text
    from seq2attn.io.outputs import check_output, output

    check_output(html, "compare", options.source, *options.references, overwrite=overwrite)
    comparison = compare(*runs, options=options)
    if html is not None:
        with output(html, "compare") as file:
            file.write(comparison_html(comparison).encode())
    if output_format == "json":
        typer.echo(json.dumps(asdict(comparison), ensure_ascii=False, indent=1))
    else:
        typer.echo(comparison_text(comparison, markdown=output_format == "markdown"))
