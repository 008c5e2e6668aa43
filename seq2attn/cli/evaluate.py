"""`seq2attn evaluate`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from seq2attn.cli.flatten import takes
from seq2attn.options import Overwrite, RunDirs, TranslationOptions
from seq2attn.options.runs import EvaluateOptions


@takes(
    "runs overrides allow_code ensemble rerank rerank_backward source references metrics tokenize tag to greedy beam"
    " mbr replace_unk glossary as_json attention plot overwrite long_inputs engine export_dir device precision"
    " batch_tokens"
)
def evaluate(
    runs: RunDirs,
    options: TranslationOptions,
    evaluation: EvaluateOptions,
    plot: Annotated[
        Path | None, typer.Option(help="Plot BLEU by source length: FILE.png, .svg or .pdf.", metavar="FILE")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Evaluate runs on the test sets of their configs, or on any pair of files: BLEU, chrF and TER by sacreBLEU.

    Translations and a report of each set are written to `evaluation` in the run directory, those of an ensemble to
    `evaluation/ensemble` in the first. Several runs are evaluated on the sets of all, with the metrics of the first.

    \b
    Examples:
      seq2attn evaluate runs/phrasebook
      seq2attn evaluate runs/phrasebook --beam 10 --json
      seq2attn evaluate runs/phrasebook --source new.de --reference new.en --metric bleu --metric exact
      seq2attn evaluate runs/phrasebook --engine ctranslate2
      seq2attn evaluate runs/before runs/after
      seq2attn evaluate runs/a --ensemble runs/b --ensemble runs/c
    """
    from seq2attn.evaluation.evaluate_runs import evaluate
    from seq2attn.visualization.curves import draw_bleu_by_length
    from seq2attn.visualization.figure import check_drawing

    if plot is not None:
        check_drawing(plot, evaluation.source, *evaluation.references, overwrite=overwrite)
    evaluated = evaluate(*runs, options=options, evaluation=evaluation)
    if plot is not None:
        draw_bleu_by_length({label: result.by_length for label, result in evaluated.by_label.items()}, plot)
    reports = evaluated.reports if len(runs) > 1 else evaluated.reports[str(runs[0])]
    typer.echo(json.dumps(reports, ensure_ascii=False, indent=1) if evaluation.as_json else str(evaluated))
