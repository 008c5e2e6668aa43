"""`seq2attn translate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

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
    OutputFile,
    Overrides,
    Overwrite,
    Precision,
    ReplaceUnknown,
    Rerank,
    RerankBackward,
    RunDir,
    Tag,
    To,
)


def translate(
    run: RunDir,
    overrides: Overrides,
    allow_code: AllowCode,
    ensemble: EnsembleRuns,
    rerank: Rerank,
    rerank_backward: RerankBackward,
    sentences: Annotated[
        list[str] | None, typer.Argument(metavar="SENTENCE", help="Sentences to translate.", show_default=False)
    ] = None,
    input_file: Annotated[
        Path | None,
        typer.Option("--input", "-i", help="Translate the lines of FILE (-: standard input).", metavar="FILE"),
    ] = None,
    output_file: OutputFile = None,
    overwrite: Overwrite = False,
    beam: Beam = None,
    greedy: Greedy = False,
    mbr: MinimumBayesRisk = None,
    copy: ReplaceUnknown = False,
    n_best: Annotated[
        int, typer.Option(min=1, metavar="N", help="Print N translations per line: line number, score, text.")
    ] = 1,
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="The beginning of each translation.", show_default=False)
    ] = "",
    glossary: GlossaryFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object per line, with scores.")] = False,
    attention: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Draw attention: FILE.html for all lines, FILE.png, .svg or .pdf for the first, - in the terminal.",
        ),
    ] = None,
    attention_kind: Annotated[
        Literal["cross", "encoder"] | None,
        typer.Option(help="Cross-attention, or the encoder's self-attention. [cross; in HTML both]"),
    ] = None,
    layer: Annotated[
        str | None, typer.Option(metavar="N|top|all", help="The layers to draw; 1 is the lowest. [top; in HTML all]")
    ] = None,
    head: Annotated[
        str | None, typer.Option(metavar="N|mean|all", help="The heads to draw. [all; in the terminal their mean]")
    ] = None,
    whole_words: Annotated[bool, typer.Option("--whole-words", help="Draw words instead of subwords.")] = False,
    color_scale: Annotated[
        Literal["max", "row", "0-1"],
        typer.Option(help="The weight drawn in full color: the largest, the largest of each row, or 1."),
    ] = "max",
    tag: Tag = None,
    to: To = None,
    long_inputs: LongInputs = None,
    engine: EngineName = "native",
    export_dir: ExportDir = None,
    device: Device = "auto",
    precision: Precision = "float32",
    batch_tokens: BatchTokens = None,
) -> None:
    """Translate sentences, a file, or standard input line by line.

    The output has exactly one line per input line, in the same order; an empty line stays empty.

    \b
    Examples:
      seq2attn translate runs/phrasebook "Das Haus ist alt." "Wo wohnt der Arzt?"
      seq2attn translate runs/phrasebook -i input.de -o output.en --beam 10
      echo "Das Haus ist alt." | seq2attn translate runs/phrasebook --n-best 3 --prefix "This house"
      seq2attn translate runs/phrasebook "Das Haus ist alt." --attention - --whole-words
      seq2attn translate runs/nllb "Das Haus ist alt." --to fra_Latn
      seq2attn translate runs/a -i input.de --ensemble runs/b --rerank runs/r2l --rerank-backward runs/en-de:0.5
    """
    from seq2attn.experiment.run_directory import RunDirectory
    from seq2attn.inference.engines.base import check_engine_supports
    from seq2attn.inference.ensemble import load
    from seq2attn.inference.reranking import load_rerankers, parse_rerank_runs
    from seq2attn.inference.translate_files import TranslateOptions, translate_input
    from seq2attn.search.search_config import check_num_hypotheses, check_size, resolve_search
    from seq2attn.visualization.attention import AttentionSelection

    options = TranslateOptions(
        sentences=tuple(sentences or ()),
        input_file=input_file,
        output_file=output_file,
        n_best=n_best,
        prefix=prefix,
        glossary=glossary,
        as_json=as_json,
        attention=attention,
        attention_selection=AttentionSelection(attention_kind, layer, head, whole_words, color_scale),
        tag=tag,
        overwrite=overwrite,
    )
    folder = RunDirectory(run)
    search = folder.load_config(overrides, ["search"]).search
    search = resolve_search(search, beam=beam, greedy=greedy, mbr=mbr, long_inputs=long_inputs, overrides=overrides)
    if beam is None and mbr is None:
        check_size(search, folder.config_path, overrides)
    check_num_hypotheses(search, n_best)
    translator = load(
        run, device, ensemble=ensemble, engine=engine, export_dir=export_dir, precision=precision, replace_unk=copy
    )
    reranking, tokenizers = parse_rerank_runs(rerank, rerank_backward), translator.tokenizers
    translator.rerankers = load_rerankers(reranking, folder, tokenizers, search, device, to=to)
    if to is not None:
        translator = translator.with_target_language(to)
    translator.max_batch_tokens = batch_tokens or translator.max_batch_tokens
    check_engine_supports(translator.engine, search, folder, overrides)
    translate_input(translator, search, options, run)
