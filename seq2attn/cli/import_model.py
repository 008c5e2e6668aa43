"""`seq2attn import`."""

from pathlib import Path
from typing import Annotated

import typer

from seq2attn.cli.flatten import takes
from seq2attn.options.runs import ImportOptions


@takes("folder run source_language target_language source_prefix positions punctuation allow_pickle verify_with")
def import_(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder of Hugging Face, or of Marian.")],
    run: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="The new run directory.")],
    options: ImportOptions,
    allow_pickle: Annotated[
        bool,
        typer.Option(
            "--allow-pickle",
            help="Also read pytorch_model.bin, by torch.load(weights_only=True). Only if you trust it.",
        ),
    ] = False,
    verify_with: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Lines to verify with. [random words of the vocabulary]")
    ] = None,
) -> None:
    """Make a run directory of a pretrained model of Hugging Face: OPUS-MT, M2M100, NLLB, mBART, BART, Pegasus, T5;
    or of a Marian model in its own files: decoder.yml, weights in .npz or .bin, and vocabularies.

    The run translates, draws attention, aligns, is evaluated, exported and trained further like any other. Where
    transformers is installed, both translate the same lines, and the command reports the share of equal tokens. In
    greedy search at least 99 % must be equal; otherwise the command fails and writes nothing.

    \b
    Examples:
      seq2attn import opus-mt-de-en runs/de-en
      seq2attn import opus-mt-en-ROMANCE runs/en-fr --to fr --verify-with lines.en
      seq2attn import nllb-200-distilled-600M runs/nllb --from deu_Latn --to eng_Latn
      seq2attn import flan-t5-small runs/t5 --source-prefix "translate English to German:"
      seq2attn translate runs/de-en "Das Haus ist alt." --attention -
    """
    from seq2attn.pretrained.import_run import import_model

    report = import_model(folder, run, options, allow_pickle=allow_pickle, verify_with=verify_with)
    if report is not None:
        typer.echo(report)
    typer.echo(f"imported to {run}", err=True)
