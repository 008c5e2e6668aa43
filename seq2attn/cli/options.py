"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

ConfigPath: TypeAlias = Annotated[Path, typer.Argument(metavar="CONFIG", help="A YAML file.", show_default=False)]

ConfigPaths: TypeAlias = Annotated[
    list[Path], typer.Argument(metavar="CONFIG", help="One or more YAML files.", show_default=False)
]

RunDir: TypeAlias = Annotated[
    Path, typer.Argument(metavar="RUN_DIR", help="A run directory that `train` made.", show_default=False)
]

EngineName: TypeAlias = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="native|ctranslate2",
        help="What searches: our own model, or CTranslate2 after `export`.",
    ),
]

ExportDir: TypeAlias = Annotated[
    Path | None,
    typer.Option("--export-dir", metavar="DIR", help="The directory that `export` wrote. [RUN_DIR/ENGINE]"),
]

AllowCode: TypeAlias = Annotated[
    list[str],
    typer.Option(
        "--allow-code",
        metavar="NAME",
        default_factory=list,
        show_default=False,
        help="Run code that comes with a run: a module that its config names. Only if you trust it.",
    ),
]

LongInputs: TypeAlias = Annotated[
    Literal["split", "truncate"] | None,
    typer.Option(
        "--long-inputs",
        help="Lines too long for the model: sentence by sentence, or their beginning alone. [split]",
    ),
]

Device: TypeAlias = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")]

Overrides: TypeAlias = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        default_factory=list,
        show_default=False,
        help="Set a value of the config, e.g. --set search.beam_size=10. May be given many times.",
    ),
]
