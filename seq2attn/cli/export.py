"""`seq2attn export`."""

from pathlib import Path
from typing import Annotated

import typer

from seq2attn.cli.flatten import takes
from seq2attn.options import AllowCode, RunDir
from seq2attn.options.runs import ExportOptions


@takes("run allow_code to folder quantization verify_with tag")
def export(
    run: RunDir,
    allow_code: AllowCode,
    options: ExportOptions,
    to: Annotated[str, typer.Option(metavar="ctranslate2|onnx|huggingface", help="The format to export to.")],
    folder: Annotated[Path | None, typer.Argument(metavar="DIR", help="The output directory. [RUN_DIR/FORMAT]")] = None,
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
    from seq2attn.exporters.export_run import export

    typer.echo(export(run, to, folder, options))
    typer.echo(f"exported to {folder or run / to}", err=True)
