"""`seq2attn export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2attn.options import AllowCode, RunDir, Tag


def export(
    run: RunDir,
    allow_code: AllowCode,
    to: Annotated[str, typer.Option(metavar="ctranslate2|onnx|huggingface", help="The format to export to.")],
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="The output directory. [RUN_DIR/FORMAT]", show_default=False)
    ] = None,
    quantization: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE", help="Data type of the weights: float32, int8; float16 for ctranslate2. [float32]"
        ),
    ] = None,
    verify_with: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Lines to verify with. [the first 200 sources of the dev set]")
    ] = None,
    tag: Tag = None,
) -> None:
    """Export a trained model to another inference engine or to Hugging Face's transformers, and verify it.

    Both engines translate the same sentences, and the command reports the share of equal tokens and the difference of
    scores. In float32 at least 99 % of the tokens must be equal in greedy search, and the log-probabilities to 0.01;
    otherwise the command fails and writes nothing. Beams of other programs may differ.

    \b
    Examples:
      seq2attn export runs/phrasebook --to ctranslate2
      seq2attn export runs/phrasebook /srv/models/phrasebook --to ctranslate2 --quantization int8
      seq2attn export runs/phrasebook --to onnx
      seq2attn translate runs/phrasebook --engine onnx "Das Haus ist alt."
      seq2attn export runs/phrasebook --to huggingface
    """
    from seq2attn.errors import UserError
    from seq2attn.experiment.run_directory import RunDirectory
    from seq2attn.exporters.export_run import export_run
    from seq2attn.exporters.targets import get_target

    if tag is not None and verify_with is None:
        raise UserError("--tag is for --verify-with; the dev set of the run has its own")
    target = get_target(to)
    where = folder or run / target.name
    report = export_run(RunDirectory(run), target, where, quantization=quantization, verify_with=verify_with, tag=tag)
    typer.echo(report)
    typer.echo(f"exported to {where}", err=True)
