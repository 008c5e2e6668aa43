"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer


def _allow_code(modules: list[str]) -> list[str]:
    if modules:
        from seq2attn.config.plugin import allow_code

        allow_code(modules)
    return modules


ConfigPath: TypeAlias = Annotated[Path, typer.Argument(metavar="CONFIG", help="A YAML file.", show_default=False)]

ConfigPaths: TypeAlias = Annotated[
    list[Path], typer.Argument(metavar="CONFIG", help="One or more YAML files.", show_default=False)
]

RunDir: TypeAlias = Annotated[
    Path, typer.Argument(metavar="RUN_DIR", help="The run directory of a training.", show_default=False)
]

EnsembleRuns: TypeAlias = Annotated[
    list[Path],
    typer.Option(
        "--ensemble",
        metavar="RUN_DIR",
        default_factory=list,
        show_default=False,
        help="Average the probabilities with those of this run, which has the same target vocabulary. Repeatable.",
    ),
]

Rerank: TypeAlias = Annotated[
    list[str],
    typer.Option(
        "--rerank",
        metavar="RUN_DIR[:WEIGHT]",
        default_factory=list,
        show_default=False,
        help="Rerank the hypotheses of each line by this run of the same direction too, with a weight of 1 or WEIGHT."
        " Repeatable.",
    ),
]

RerankBackward: TypeAlias = Annotated[
    list[str],
    typer.Option(
        "--rerank-backward",
        metavar="RUN_DIR[:WEIGHT]",
        default_factory=list,
        show_default=False,
        help="The same by a run from target to source. Repeatable.",
    ),
]

RunDirs: TypeAlias = Annotated[
    list[Path],
    typer.Argument(metavar="RUN_DIR", help="The run directories of one or more trainings.", show_default=False),
]

OutputFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write to FILE (-: standard output; .gz and .xz are compressed).",
        show_default=False,
    ),
]

Overwrite: TypeAlias = Annotated[
    bool, typer.Option("--overwrite", help="Replace an output file that is not what an earlier call wrote.")
]

Beam: TypeAlias = Annotated[int | None, typer.Option(min=1, max=1000, metavar="N", help="Beam search with N beams.")]

Greedy: TypeAlias = Annotated[
    bool, typer.Option("--greedy", help="Greedy search: the most likely token at every step.")
]

MinimumBayesRisk: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--mbr", min=1, max=1000, metavar="N", help="Minimum Bayes risk decoding: the best of N samples, by chrF."
    ),
]

ReplaceUnknown: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--replace-unk",
        help="Replace unknown words by the source words with the most attention, or their terms in --glossary.",
    ),
]

GlossaryFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--glossary",
        metavar="FILE",
        help="Terms that translations must have, in beam search: source term, tab, target term, line by line.",
        show_default=False,
    ),
]

EngineName: TypeAlias = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="native|ctranslate2|onnx",
        help="The inference engine: PyTorch, or CTranslate2 or ONNX Runtime after `export`.",
    ),
]

ExportDir: TypeAlias = Annotated[
    Path | None, typer.Option("--export-dir", metavar="DIR", help="The output directory of `export`. [RUN_DIR/ENGINE]")
]

AllowCode: TypeAlias = Annotated[
    list[str],
    typer.Option(
        "--allow-code",
        metavar="NAME",
        callback=_allow_code,
        default_factory=list,
        show_default=False,
        help="Allow a module of custom components that a run names to be imported. Only if you trust it.",
    ),
]
"""The modules are allowed for the whole process before the command runs, which need not read the value."""

LongInputs: TypeAlias = Annotated[
    Literal["split", "truncate"] | None,
    typer.Option(
        "--long-inputs", help="Lines too long for the model: split at sentence boundaries, or truncated. [split]"
    ),
]

BatchTokens: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--batch-tokens",
        min=1,
        metavar="N",
        help="Source tokens of a batch, times beams. [8192; on a GPU by its memory, at most 262144]",
    ),
]

Precision: TypeAlias = Annotated[
    Literal["float32", "bfloat16"], typer.Option(help="Precision of the search; bfloat16 is faster on a GPU.")
]

Tag: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Put the tag <NAME> before each source, for a model trained with tags."),
]
"""The tag of all sources; checked by `Tokenizer.check_tag`."""

To: TypeAlias = Annotated[
    str | None, typer.Option(metavar="LANG", help="Translate into this language, for an imported model with several.")
]

Device: TypeAlias = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")]


def _overrides(description: str) -> Any:
    """The option `--set`; `description` names the file, with an example."""
    help = f"Set a value of {description}. Repeatable."
    return typer.Option("--set", metavar="KEY=VALUE", default_factory=list, show_default=False, help=help)


Overrides: TypeAlias = Annotated[list[str], _overrides("the config, e.g. --set search.beam_size=10")]

SweepOverrides: TypeAlias = Annotated[list[str], _overrides("the file, e.g. --set seeds=[1,2,3]")]
