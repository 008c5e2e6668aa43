"""The command line: each command is a function in a file of its own, and is listed here.

torch and pydantic are imported inside commands only, so that `--help` is quick.
"""

from __future__ import annotations

import functools
import os
import re
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
    init,
    prepare,
    score,
    sweep,
    train,
    translate,
    verify_resume,
)
from seq2attn.errors import ConfigError, UserError
from seq2attn.io.import_path import leave_out_working_directory
from seq2attn.io.terminal import STANDARD_OUTPUT, open_standard_streams, visible

P = ParamSpec("P")
HALF = re.compile("[\ud800-\udfff]")
OUT_OF_MEMORY = "error: there is not enough memory for this"


def main() -> None:
    """Runs the `seq2attn` command. Its results are UTF-8, as the text that it reads, whatever the locale."""
    leave_out_working_directory()
    open_standard_streams()
    try:
        handle_errors(app)(prog_name="seq2attn")
    except typer.Exit as ended:
        sys.exit(ended.exit_code)


def handle_errors(command: Callable[P, None]) -> Callable[P, None]:
    """`command`, with a traceback for our bugs only: a user's mistake exits 2, Ctrl-C 130."""

    @functools.wraps(command)
    def run(*args: P.args, **options: P.kwargs) -> None:
        try:
            command(*args, **options)
            sys.stdout.flush()
        except UserError as error:
            # What is wrong in a config is said with its place in front, as compilers do.
            raise _ended(2, str(error) if isinstance(error, ConfigError) else f"error: {error}") from None
        except KeyboardInterrupt:
            raise _ended(130, "\ninterrupted") from None
        except OSError as error:
            # A file that is not ours to read or write, a full disk: nothing that a traceback explains.
            has_left = isinstance(error, BrokenPipeError)  # whoever read our output (`| head`) has enough
            if has_left or error.filename == STANDARD_OUTPUT:  # what is still buffered goes nowhere at exit
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if has_left:
                raise typer.Exit(141) from None
            where = f"{error.filename}: " if error.filename else ""
            raise _ended(2, f"error: {where}{error.strerror or error}") from None
        except UnicodeEncodeError as error:
            # Python reads the bytes of names and arguments that are not UTF-8 as halves of characters.
            line = next((line for line in error.object.split("\n") if HALF.search(line)), None)
            if line is None:
                raise
            raise _ended(2, f"error: {line[:200]}: is not UTF-8; give it another name") from None
        except (typer.Exit, typer.Abort):
            raise
        except MemoryError:  # with none left to import anything
            raise _ended(2, OUT_OF_MEMORY) from None
        except RuntimeError as error:
            from seq2attn.nn.out_of_memory import is_oom_error

            if not is_oom_error(error):
                raise
            raise _ended(2, OUT_OF_MEMORY) from None

    return run


def _ended(code: int, said: str) -> typer.Exit:
    """The end of a command, after its last words."""
    print(visible(said), file=sys.stderr)
    return typer.Exit(code)


def command_group(about: str, *commands: Callable[..., None]) -> typer.Typer:
    """A command of several commands, named after their functions."""
    made = _typer(about)
    for command in commands:
        made.command()(handle_errors(command))
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


HELP = """\
Neural machine translation that is about attention: any encoder, decoder and attention, one YAML file.

\b
Examples:
  seq2attn train configs/phrasebook.yaml
  seq2attn translate runs/phrasebook "Das Haus ist alt."
  seq2attn evaluate runs/phrasebook
  seq2attn COMMAND --help
"""

app = command_group(
    HELP,
    init.init,
    train.train,
    translate.translate,
    evaluate.evaluate,
    align.align,
    score.score,
    prepare.prepare,
    average.average,
    export.export,
    sweep.sweep,
    doctor.doctor,
    verify_resume.verify_resume,
)
app.callback()(_options)
app.add_typer(
    command_group("Check, show and describe configs.", config.check, config.show, config.schema),
    name="config",
)
