"""`seq2attn speedrun`."""

from pathlib import Path
from typing import Annotated

import typer

from seq2attn.options import AllowCode, OutputFile, Overrides, Overwrite


def speedrun(
    overrides: Overrides,
    allow_code: AllowCode,
    config: Annotated[Path | None, typer.Argument(metavar="CONFIG", help="A YAML file.")] = None,
    target: Annotated[
        float | None, typer.Option(metavar="BLEU", help="Greedy BLEU on the dev set that ends training.")
    ] = None,
    output_file: OutputFile = None,
    overwrite: Overwrite = False,
    verify: Annotated[Path | None, typer.Option(metavar="FILE", help="Repeat the training of this record.")] = None,
) -> None:
    """Train to a BLEU on the dev set and write a record of it, or repeat the training of a record and compare.

    The time counts from the first update. The record is written to `record.json` in the run directory, or to --output.
    The exit code is 1 if training ended below the target, or if the repeated training differs.

    \b
    Examples:
      seq2attn speedrun configs/speedrun/target-30.yaml
      seq2attn speedrun --verify runs/speedrun/target-30/record.json
    """
    from seq2attn.config.load import with_options
    from seq2attn.errors import TrainingInterrupted, UserError
    from seq2attn.experiment.experiment_config import load_config
    from seq2attn.io.outputs import check_output, text_output
    from seq2attn.sweep.speedrun import speedrun, verify_speedrun

    values = with_options(overrides, {"training.validation.target": ("target", target)})
    if (config is None) == (verify is None) or (verify is not None and (values or output_file)):
        raise UserError("give either a CONFIG, or --verify alone")
    check_output(output_file, "speedrun", config, overwrite=overwrite)
    try:
        if config is None:
            has_succeeded, lines = verify_speedrun(verify or Path())
            typer.echo("\n".join(["equal" if has_succeeded else "DIFFERENT", *lines]))
        else:
            experiment = load_config(config, values)
            record = speedrun(experiment)
            has_succeeded, path = record.is_reached, output_file or experiment.run_dir / "record.json"
            with text_output(path, "speedrun") as output:
                output.write(record.to_json())
            verb, seconds = "reached" if has_succeeded else "NOT REACHED", record.curve[-1].seconds
            typer.echo(f"target {record.target:g} {verb} after {seconds:.1f} s; record: {path}", err=True)
    except TrainingInterrupted as interruption:
        typer.echo("no record: a speedrun is not resumed; start it again, with another `run_dir`", err=True)
        raise typer.Exit(interruption.exit_code) from None
    if not has_succeeded:
        raise typer.Exit(1)
