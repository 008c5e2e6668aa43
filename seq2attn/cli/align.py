"""`seq2attn align`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2attn.options import AllowCode, Device, OutputFile, Overwrite, RunDir, Tag, To


def align(
    run: RunDir,
    allow_code: AllowCode,
    source: Annotated[Path | None, typer.Option(help="Text in the source language.", metavar="FILE")] = None,
    target: Annotated[Path | None, typer.Option(help="Its translation, line by line.", metavar="FILE")] = None,
    output_file: OutputFile = None,
    overwrite: Overwrite = False,
    gold: Annotated[
        Path | None, typer.Option(help="Gold alignments (`0-0 1-2`, possible `1?2`) to compare with.", metavar="FILE")
    ] = None,
    select_head: Annotated[
        bool,
        typer.Option("--select-head", help="Select the layer and head that agree best with --gold, for later calls."),
    ] = False,
    tag: Tag = None,
    to: To = None,
    device: Device = "auto",
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
    from seq2attn.data.readers import PlainTextConfig
    from seq2attn.errors import UserError
    from seq2attn.evaluation.aligner import Aligner, align_files, head_selection_corpus, run_head_selection
    from seq2attn.experiment.run_directory import RunDirectory

    corpus = None
    if source is not None and target is not None:
        corpus = PlainTextConfig.of_files(source, target, alignment=gold, tag=tag)
    elif (source, target, gold) != (None, None, None):
        raise UserError("give --source and --target together")
    elif (tag, to) != (None, None):
        raise UserError("--tag and --to are for --source; the config's dev set has its own")
    if select_head:
        if output_file is not None:
            raise UserError("--select-head writes no links: leave out --output, and align afterwards")
        corpus = head_selection_corpus(RunDirectory(run), corpus)
        run_head_selection(Aligner.load(run, device, to), corpus)
    elif corpus is None:
        raise UserError("give --source and --target")
    else:
        align_files(Aligner.load(run, device, to), corpus, output_file, overwrite=overwrite)
