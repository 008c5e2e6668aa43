"""`seq2attn config`: check configs, show what they come to, and describe them to editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from seq2attn.cli.options import AllowCode, ConfigPath, ConfigPaths, Overrides
from seq2attn.errors import ConfigError


def check(configs: ConfigPaths, overrides: Overrides, allow_code: AllowCode) -> None:
    """Find every mistake in configs, and every file that they name and that is not there, and show its place.

    \b
    Examples:
      seq2attn config check my.yaml
      seq2attn config check configs/*.yaml --set model.decoder.dim=256
    """
    from seq2attn.config.files import missing_files
    from seq2attn.config.load import errors_at, load
    from seq2attn.config.trust import allow_code as allow
    from seq2attn.experiment import ExperimentConfig

    allow(allow_code)
    wrong = 0
    for path in configs:
        try:
            if missing := missing_files(load(path, ExperimentConfig, overrides)):
                raise errors_at(path, ExperimentConfig, missing, overrides)
            typer.echo(f"{path}: ok")
        except ConfigError as error:
            typer.echo(f"{error}\n", err=True)
            wrong += 1
    if wrong:
        raise typer.Exit(2)


def show(config: ConfigPath, overrides: Overrides, allow_code: AllowCode) -> None:
    """Print a config in full, with all defaults.

    \b
    Examples:
      seq2attn config show my.yaml
      seq2attn config show my.yaml --set search.beam_size=10
    """
    from seq2attn.config.load import load
    from seq2attn.config.show import dump
    from seq2attn.config.trust import allow_code as allow
    from seq2attn.experiment import ExperimentConfig

    allow(allow_code)
    typer.echo(dump(load(config, ExperimentConfig, overrides)), nl=False)


def schema(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to FILE.", show_default=False)
    ] = None,
) -> None:
    """Print the JSON Schema of configs, for editors.

    \b
    Examples:
      seq2attn config schema -o seq2attn.schema.json
    and as the first line of a YAML file:
      # yaml-language-server: $schema=seq2attn.schema.json
    """
    from seq2attn.config.json_schema import json_schema
    from seq2attn.experiment import ExperimentConfig
    from seq2attn.io import files

    text = json.dumps(json_schema(ExperimentConfig), indent=2, ensure_ascii=False) + "\n"
    if output is None:
        typer.echo(text, nl=False)
        return
    with files.output(output) as file:
        file.write(text.encode())
