"""The command line: each command is a function in a file of its own, and is listed here.

torch and pydantic are imported inside commands only, so that `--help` is quick.
"""

from __future__ import annotations

import functools
import io
import os
import sys
from collections.abc import Callable
from typing import Annotated, ParamSpec

import typer

from seq2attn.cli import (
    align,
    average,
    config,
    doctor,
    evaluate,
    export,
    prepare,
    sweep,
    train,
    translate,
    verify_resume,
)
from seq2attn.errors import ConfigError, UserError
from seq2attn.import_path import leave_out_working_directory

P = ParamSpec("P")


def main() -> None:
    """Runs the `seq2attn` command. Its results are UTF-8, as the text that it reads, whatever the locale."""
    leave_out_working_directory()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    app(prog_name="seq2attn")


def polite(command: Callable[P, None]) -> Callable[P, None]:
    """`command`, with a traceback for our bugs only: a user's mistake exits 2, Ctrl-C 130."""

    @functools.wraps(command)
    def run(*args: P.args, **options: P.kwargs) -> None:
        try:
            command(*args, **options)
            sys.stdout.flush()
        except UserError as error:
            # What is wrong in a config is said with its place in front, as compilers do.
            typer.echo(error if isinstance(error, ConfigError) else f"error: {error}", err=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            typer.echo("\ninterrupted", err=True)
            raise typer.Exit(130) from None
        except BrokenPipeError:
            # Whoever read our output (`| head`) has enough. What is still buffered goes nowhere at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(141) from None
        except OSError as error:
            # A file that is not ours to read or write, a full disk: nothing that a traceback explains.
            where = f"{error.filename}: " if error.filename else ""
            typer.echo(f"error: {where}{error.strerror or error}", err=True)
            raise typer.Exit(2) from None

    return run


PARSED = {"train": train.TrainCommand}
"""Commands that have a say in how their words are read."""


def group(about: str, *commands: Callable[..., None]) -> typer.Typer:
    """A command of several commands, named after their functions."""
    made = _typer(about)
    for command in commands:
        made.command(cls=PARSED.get(command.__name__))(polite(command))
    return made


def _typer(about: str) -> typer.Typer:
    return typer.Typer(
        help=about,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,  # importing rich would take longer than all the rest of `--help`
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def _print_version(wanted: bool) -> None:
    if wanted:
        import seq2attn

        typer.echo(f"seq2attn {seq2attn.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


ABOUT = """\
Neural machine translation that is about attention: any encoder, decoder and attention, one YAML file.

\b
Examples:
  seq2attn train configs/phrasebook.yaml
  seq2attn translate runs/phrasebook "Das Haus ist alt."
  seq2attn evaluate runs/phrasebook
  seq2attn COMMAND --help
"""

app = group(
    ABOUT,
    train.train,
    translate.translate,
    evaluate.evaluate,
    align.align,
    prepare.prepare,
    average.average,
    export.export,
    sweep.sweep,
    doctor.doctor,
    verify_resume.verify_resume,
)
app.callback()(_options)
app.add_typer(
    group("Check, show and describe configs.", config.check, config.show, config.schema), name="config"
)
