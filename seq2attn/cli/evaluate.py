"""`seq2attn evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from seq2attn.cli.options import AllowCode, Device, EngineFolder, EngineName, Long, Overrides, RunPath


def evaluate(
    run: RunPath,
    overrides: Overrides,
    allow_code: AllowCode,
    source: Annotated[
        Path | None, typer.Option(help="Score this file instead of the config's test sets.", metavar="FILE")
    ] = None,
    reference: Annotated[
        Path | None, typer.Option(help="The reference translations of --source.", metavar="FILE")
    ] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="Take the likeliest word at every step.")] = False,
    beam: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Search with a beam of this width.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Draw BLEU by source length: FILE.png or FILE.svg.", metavar="FILE")
    ] = None,
    long: Long = None,
    engine: EngineName = "native",
    engine_folder: EngineFolder = None,
    device: Device = "auto",
) -> None:
    """Score a run on the test sets of its config, or on any pair of files: BLEU, chrF and TER by sacreBLEU.

    Translations and the report are kept in the run directory, under `evaluation`.

    \b
    Examples:
      seq2attn evaluate runs/phrasebook
      seq2attn evaluate runs/phrasebook --beam 10 --json
      seq2attn evaluate runs/phrasebook --source new.de --reference new.en
      seq2attn evaluate runs/phrasebook --engine ctranslate2
    """
    from seq2attn.drawing.figure import check_picture
    from seq2attn.evaluation.evaluate import Learnt, evaluate_run, test_sets, write_report
    from seq2attn.evaluation.report import as_tables, draw
    from seq2attn.run import Run
    from seq2attn.search.options import check_size, chosen_search
    from seq2attn.translating import warn
    from seq2attn.translator import Translator, check_engine

    if picture is not None:
        check_picture(picture)
    folder = Run(run, allow_code)
    experiment = folder.experiment(overrides)
    sets = test_sets(experiment, source, reference)
    search = chosen_search(experiment.search, beam=beam, greedy=greedy, long=long)
    if beam is None:
        check_size(search, folder.config, overrides)
    translator = Translator.load(
        run, device, engine=engine, engine_folder=engine_folder, allow_code=allow_code
    )
    check_engine(translator.engine, search, folder, overrides)
    origin = folder.origin()
    results = evaluate_run(translator, sets, search, Learnt.of(folder))
    warn(concern for result in results for concern in result.concerns)
    report = write_report(folder, origin, results, search)
    if picture is not None:
        draw(results, picture)
    typer.echo(json.dumps(report, ensure_ascii=False, indent=1) if as_json else as_tables(results))
