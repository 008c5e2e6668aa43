"""`seq2attn config`."""

import json

import typer

from seq2attn.errors import ConfigError
from seq2attn.io.terminal import name_options
from seq2attn.options import AllowCode, ConfigPath, ConfigPaths, OutputFile, Overrides, Overwrite


def check(configs: ConfigPaths, overrides: Overrides, allow_code: AllowCode) -> None:
    """Report all mistakes in configs, and all input files that do not exist, with their places.

    \b
    Examples:
      seq2attn config check my.yaml
      seq2attn config check configs/*.yaml --set model.decoder.dim=256
    """
    from seq2attn.config.base import FieldError
    from seq2attn.config.load import errors_at, load
    from seq2attn.experiment.experiment_config import ExperimentConfig
    from seq2attn.training.initial_weights import check_parts

    failed = False
    for path in configs:
        try:
            experiment = load(path, ExperimentConfig, overrides, check_files=True)
            try:
                check_parts(experiment)
            except FieldError as mistake:
                raise errors_at(path, ExperimentConfig, [mistake], overrides) from None
            typer.echo(f"{path}: ok")
        except ConfigError as error:
            typer.echo(f"{name_options(str(error))}\n", err=True)
            failed = True
    if failed:
        raise typer.Exit(2)


def show(config: ConfigPath, overrides: Overrides, allow_code: AllowCode) -> None:
    """Print a config in full, with all defaults.

    \b
    Examples:
      seq2attn config show my.yaml
      seq2attn config show my.yaml --set search.beam_size=10
    """
    from seq2attn.config.load import dump
    from seq2attn.experiment.experiment_config import load_config

    typer.echo(dump(load_config(config, overrides)), nl=False)


def schema(output: OutputFile = None, overwrite: Overwrite = False) -> None:
    """Print the JSON Schema of configs, for editors.

    \b
    Examples:
      seq2attn config schema -o seq2attn.schema.json
    and as the first line of a YAML file:
      # yaml-language-server: $schema=seq2attn.schema.json
    """
    from seq2attn.config.load import json_schema
    from seq2attn.experiment.experiment_config import ExperimentConfig
    from seq2attn.io.outputs import check_output, text_output

    check_output(output, "config schema", overwrite=overwrite)
    with text_output(output, "config schema") as file:
        file.write(json.dumps(json_schema(ExperimentConfig), indent=2, ensure_ascii=False) + "\n")
