"""`seq2attn translate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from seq2attn.cli.options import AllowCode, Device, EngineName, ExportDir, LongInputs, Overrides, RunDir


def translate(
    run: RunDir,
    overrides: Overrides,
    allow_code: AllowCode,
    sentences: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SENTENCE]...", help="What to translate.", show_default=False),
    ] = None,
    input_file: Annotated[
        Path | None, typer.Option("--input", "-i", help="Translate the lines of FILE.", metavar="FILE")
    ] = None,
    output_file: Annotated[Path | None, typer.Option("--output", "-o", help="Write to FILE.", metavar="FILE")] = None,
    beam: Annotated[int | None, typer.Option(min=1, max=1000, help="Search with a beam of this width.")] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="Take the likeliest word at every step.")] = False,
    n_best: Annotated[
        int, typer.Option(min=1, help="Print so many translations of each line: number, score, text.")
    ] = 1,
    prefix: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Begin each translation with TEXT.", show_default=False)
    ] = None,
    prefix_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Begin each translation with the same line of FILE.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object a line, with scores.")] = False,
    attention: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Draw attention: FILE.html for all lines, FILE.png or .svg for the first, - for here.",
        ),
    ] = None,
    attention_kind: Annotated[
        Literal["cross", "encoder"] | None,
        typer.Option(help="Cross-attention, or the encoder's self-attention. [cross; in an HTML file both]"),
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(metavar="N|top|all", help="The layers to draw; 1 is the lowest. [top; on a page all]"),
    ] = None,
    head: Annotated[
        str | None, typer.Option(metavar="N|mean|all", help="The heads to draw. [all; with - their mean]")
    ] = None,
    whole_words: Annotated[bool, typer.Option("--whole-words", help="Join sub-words in the drawing.")] = False,
    color_scale: Annotated[
        Literal["max", "row", "0-1"],
        typer.Option(help="Weight with the full color: the largest, the largest of each row, or 1."),
    ] = "max",
    tag: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Put the tag <NAME> before each line, for a model trained with it."),
    ] = None,
    long_inputs: LongInputs = None,
    engine: EngineName = "native",
    export_dir: ExportDir = None,
    device: Device = "auto",
) -> None:
    """Translate sentences, a file, or standard input line by line as it comes.

    As many lines come out as go in, in their order; an empty line stays empty.

    \b
    Examples:
      seq2attn translate runs/phrasebook "Das Haus ist alt." "Wo wohnt der Arzt?"
      seq2attn translate runs/phrasebook -i input.de -o output.en --beam 10
      echo "Das Haus ist alt." | seq2attn translate runs/phrasebook --n-best 3
      seq2attn translate runs/phrasebook "Das Haus ist alt." --attention - --whole-words
      seq2attn translate runs/phrasebook "Das Haus ist alt." --prefix "This house"
      seq2attn translate runs/phrasebook --set search.kind=sample --set search.temperature=0.8 "Guten Tag."
    """
    from seq2attn.inference.translate_files import TranslateOptions, run_translate
    from seq2attn.visualization.attention import AttentionSelection

    wishes = TranslateOptions(
        sentences=tuple(sentences or ()),
        input_file=input_file,
        output_file=output_file,
        beam=beam,
        greedy=greedy,
        n_best=n_best,
        prefix=prefix,
        prefix_file=prefix_file,
        as_json=as_json,
        attention=attention,
        attention_selection=AttentionSelection(attention_kind, layer, head, whole_words, color_scale),
        long_inputs=long_inputs,
        engine=engine,
        export_dir=export_dir,
        device=device,
        tag=tag,
        overrides=tuple(overrides),
        allow_code=tuple(allow_code),
    )
    run_translate(run, wishes)
