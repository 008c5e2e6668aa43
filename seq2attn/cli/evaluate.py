"""`seq2attn evaluate`."""

from __future__ import annotations

import json
from functools import partial
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
    Greedy,
    LongInputs,
    Overrides,
    Precision,
    RunDir,
    Tag,
)


def evaluate(
    run: RunDir,
    overrides: Overrides,
    allow_code: AllowCode,
    ensemble: EnsembleRuns,
    source: Annotated[
        Path | None, typer.Option(help="Evaluate on this file instead of the config's test sets.", metavar="FILE")
    ] = None,
    reference: Annotated[
        list[Path] | None, typer.Option(help="Reference translations of --source. Repeatable.", metavar="FILE")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="bleu, chrf, chrf++, ter, exact or token-error-rate. Repeatable.", metavar="NAME"),
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
    greedy: Greedy = False,
    beam: Beam = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Plot BLEU by source length: FILE.png or FILE.svg.", metavar="FILE")
    ] = None,
    long_inputs: LongInputs = None,
    engine: EngineName = "native",
    export_dir: ExportDir = None,
    device: Device = "auto",
    precision: Precision = "float32",
    batch_tokens: BatchTokens = None,
) -> None:
    """Evaluate a run on the test sets of its config, or on any pair of files: BLEU, chrF and TER by sacreBLEU.

    Translations and a report of each set are written to `evaluation` in the run directory, those of an ensemble to
    `evaluation/ensemble` in the first.

    \b
    Examples:
      seq2attn evaluate runs/phrasebook
      seq2attn evaluate runs/phrasebook --beam 10 --json
      seq2attn evaluate runs/phrasebook --source new.de --reference new.en --metric bleu --metric exact
      seq2attn evaluate runs/phrasebook --engine ctranslate2
      seq2attn evaluate runs/a --ensemble runs/b --ensemble runs/c
    """
    from seq2attn.evaluation import evaluate as evaluation
    from seq2attn.inference.ensemble import load
    from seq2attn.inference.translate_files import print_warnings
    from seq2attn.inference.translator import check_engine_supports
    from seq2attn.run_directory import RunDirectory
    from seq2attn.search.config import check_size, resolve_search
    from seq2attn.tokenizers.tags import check_tag
    from seq2attn.visualization.curves import draw_bleu_by_length
    from seq2attn.visualization.figure import check_picture

    if plot is not None:
        check_picture(plot)
    folder = RunDirectory(run)
    metrics = [f"evaluation.metrics=[{','.join(metric)}]"] if metric else []
    tokenizers = [f"evaluation.tokenize={tokenize}"] if tokenize else []
    experiment = folder.load_config([*overrides, *metrics, *tokenizers])
    check_tag(folder.load_tokenizers()[0], tag)
    sets = evaluation.test_sets(experiment, source, reference or [], tag)
    search = resolve_search(experiment.search, beam=beam, greedy=greedy, long_inputs=long_inputs)
    if beam is None:
        check_size(search, folder.config_path, overrides)
    translator, origin = evaluation.load_with_origin(
        [folder, *map(RunDirectory, ensemble)],
        partial(load, run, device, ensemble=ensemble, engine=engine, export_dir=export_dir, precision=precision),
    )
    translator.max_batch_tokens = batch_tokens or translator.max_batch_tokens
    check_engine_supports(translator.engine, search, folder, overrides)
    results = evaluation.evaluate_run(folder, translator, sets, search, experiment.evaluation)
    for line in dict.fromkeys(result.note for result in results if result.note):
        typer.echo(line, err=True)
    print_warnings(warning for result in results for warning in result.warnings)
    report = evaluation.write_reports(folder, origin, results, search, translator.engine.description)
    if plot is not None:
        draw_bleu_by_length({result.name: result.by_length for result in results}, plot)
    typer.echo(json.dumps(report, ensure_ascii=False, indent=1) if as_json else evaluation.format_results(results))
