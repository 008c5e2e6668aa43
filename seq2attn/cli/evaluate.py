"""`seq2attn evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from seq2attn.cli.options import (
    AllowCode,
    BatchTokens,
    Beam,
    Device,
    EngineName,
    EnsembleRuns,
    ExportDir,
    GlossaryFile,
    Greedy,
    LongInputs,
    MinimumBayesRisk,
    Overrides,
    Overwrite,
    Precision,
    ReplaceUnknown,
    Rerank,
    RerankBackward,
    RunDirs,
    Tag,
    To,
)


def evaluate(
    runs: RunDirs,
    overrides: Overrides,
    allow_code: AllowCode,
    ensemble: EnsembleRuns,
    rerank: Rerank,
    rerank_backward: RerankBackward,
    source: Annotated[
        Path | None, typer.Option(help="Evaluate on this file instead of the config's test sets.", metavar="FILE")
    ] = None,
    reference: Annotated[
        list[Path] | None, typer.Option(help="Reference translations of --source. Repeatable.", metavar="FILE")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="bleu, chrf, chrf++, ter, exact, token-error-rate or paper_bleu. Repeatable.", metavar="NAME"
        ),
    ] = None,
    tokenize: Annotated[
        str | None,
        typer.Option(
            help="sacreBLEU's tokenizer for BLEU: 13a, intl, char, zh, ja-mecab, ko-mecab or flores200; by default by"
            " the script of the references.",
            metavar="NAME",
        ),
    ] = None,
    tag: Tag = None,
    to: To = None,
    greedy: Greedy = False,
    beam: Beam = None,
    mbr: MinimumBayesRisk = None,
    replace_unk: ReplaceUnknown = False,
    glossary: GlossaryFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Plot BLEU by source length: FILE.png, .svg or .pdf.", metavar="FILE")
    ] = None,
    overwrite: Overwrite = False,
    long_inputs: LongInputs = None,
    engine: EngineName = "native",
    export_dir: ExportDir = None,
    device: Device = "auto",
    precision: Precision = "float32",
    batch_tokens: BatchTokens = None,
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
    from seq2attn.evaluation.evaluate_runs import EvaluateOptions, evaluate_runs
    from seq2attn.inference.reranking import parse_rerank_runs
    from seq2attn.visualization.curves import draw_bleu_by_length
    from seq2attn.visualization.figure import check_drawing

    if plot is not None:
        check_drawing(plot, source, *(reference or ()), overwrite=overwrite)
    options = EvaluateOptions(
        source=source,
        references=tuple(reference or ()),
        metrics=tuple(metric or ()),
        tokenize=tokenize,
        tag=tag,
        to=to,
        beam=beam,
        greedy=greedy,
        mbr=mbr,
        replace_unk=replace_unk,
        glossary=glossary,
        long_inputs=long_inputs,
        ensemble=tuple(ensemble),
        rerank=parse_rerank_runs(rerank, rerank_backward),
        engine=engine,
        export_dir=export_dir,
        device=device,
        precision=precision,
        batch_tokens=batch_tokens,
        overrides=tuple(overrides),
    )
    evaluated = evaluate_runs(runs, options)
    if plot is not None:
        draw_bleu_by_length({label: result.by_length for label, result in evaluated.by_label.items()}, plot)
    reports = evaluated.reports if len(runs) > 1 else evaluated.reports[str(runs[0])]
    typer.echo(json.dumps(reports, ensure_ascii=False, indent=1) if as_json else str(evaluated))
