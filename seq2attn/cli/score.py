"""`seq2attn score`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2attn.cli.options import AllowCode, Device, OutputFile, Overwrite, RunDir, Tag, To


def score(
    run: RunDir,
    allow_code: AllowCode,
    source: Annotated[Path, typer.Option(help="Text in the source language.", metavar="FILE")],
    target: Annotated[Path, typer.Option(help="Its translation, line by line.", metavar="FILE")],
    output_file: OutputFile = None,
    overwrite: Overwrite = False,
    per_token: Annotated[
        bool, typer.Option("--per-token", help="Add each token with its log-probability, EOS last.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object per pair, with all tokens and log-probabilities.")
    ] = False,
    tag: Tag = None,
    to: To = None,
    device: Device = "auto",
) -> None:
    """Print the log-probability of each target line given its source, by forced decoding: natural logarithms, with EOS.

    One line per pair, in the same order. The perplexity of the whole text is printed on standard error.

    \b
    Examples:
      seq2attn score runs/phrasebook --source new.de --target new.en
      seq2attn score runs/phrasebook --source new.de --target new.en --per-token -o new.scores
      seq2attn score runs/phrasebook --source <(zcat new.de.gz) --target <(zcat new.en.gz) --json
    """
    from seq2attn.data.readers import PlainTextConfig
    from seq2attn.experiment.run_directory import RunDirectory
    from seq2attn.inference.scoring import score_files
    from seq2attn.nn.device import resolve_device

    folder = RunDirectory(run)
    loaded = folder.load(resolve_device(device))
    tokenizers = loaded.tokenizers if to is None else loaded.tokenizers.translate_into(to)
    tokenizers.source.check_tag(tag)
    corpus = PlainTextConfig.of_files(source, target, tag=tag)
    score_files(
        folder, loaded.model, tokenizers, corpus, output_file, as_json=as_json, per_token=per_token, overwrite=overwrite
    )
