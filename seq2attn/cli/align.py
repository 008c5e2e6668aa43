"""`seq2attn align`."""

from typing import Annotated

import typer

from seq2attn.cli.flatten import takes
from seq2attn.options import AllowCode, OutputFile, Overwrite, RunDir
from seq2attn.options.runs import AlignOptions


@takes("run allow_code source target output_file overwrite gold select_head tag to device")
def align(
    run: RunDir,
    allow_code: AllowCode,
    options: AlignOptions,
    output_file: OutputFile = None,
    overwrite: Overwrite = False,
    select_head: Annotated[
        bool,
        typer.Option("--select-head", help="Select the layer and head that agree best with --gold, for later calls."),
    ] = False,
) -> None:
    """Print word alignments of sentence pairs, from attention weights under forced decoding.

    One line per pair, such as `0-0 1-2`: source and target words, counted from 0, without a tag. An empty line stays
    empty.

    \b
    Examples:
      seq2attn align runs/mine --source new.de --target new.en -o new.align
      seq2attn align runs/mine --select-head --source dev.de --target dev.en --gold dev.align
      seq2attn align runs/mine --select-head          # on the config's dev set, if it has alignments
      seq2attn align runs/mine --source test.de --target test.en --gold test.align
    """
    from seq2attn.data.word_alignment import format_pharaoh
    from seq2attn.errors import UserError
    from seq2attn.evaluation.aligner import align, select_alignment_head
    from seq2attn.evaluation.head_selection import ALIGNMENT_FILE
    from seq2attn.inference.input_checks import check_finite
    from seq2attn.io.outputs import check_output, text_output
    from seq2attn.io.tables import format_table

    if select_head:
        if output_file is not None:
            raise UserError("--select-head writes no links: leave out --output, and align afterwards")
        rates = select_alignment_head(run, options)
        rows = list[tuple[str, ...]]()
        for head, rate in rates.items():
            shares = (f"{share:.1%}" for share in (rate.precision, rate.recall, rate.error_rate))
            rows.append((str(head.layer), str(head.head), head.step, *shares))
        typer.echo(format_table([("layer", "head", "step", "precision", "recall", "AER"), *rows], num_text_columns=3))
        typer.echo(f"{run / ALIGNMENT_FILE}: links now come from {next(iter(rates))}", err=True)
        return
    check_output(output_file, "align", options.source, options.target, options.gold, overwrite=overwrite)
    alignment = align(run, options)
    if alignment.head is not None:
        typer.echo(f"links come from {alignment.head} ({alignment.reason})", err=True)
    with text_output(output_file, "align") as file:
        file.writelines(format_pharaoh(links or []) + "\n" for links in alignment.links)
    check_finite(alignment.not_finite)
    if alignment.error_rate is not None:
        typer.echo(alignment.error_rate, err=True)
