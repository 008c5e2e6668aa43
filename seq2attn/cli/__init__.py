"""The command line: the list of commands, each a function in its module, and the handling of errors.

torch and pydantic are imported inside commands only, so that `--help` is fast.
"""

import functools
import os
import re
import sys
from collections.abc import Callable
from typing import Annotated, ParamSpec

import typer

from seq2attn.cli import (
    align,
    compare,
    config,
    doctor,
    evaluate,
    explore,
    export,
    import_model,
    init,
    score,
    speedrun,
    sweep,
    synthetic_corpus,
    train,
    translate,
)
from seq2attn.errors import ConfigError, UserError
from seq2attn.io.import_path import leave_out_working_directory
from seq2attn.io.terminal import STANDARD_OUTPUT, name_options, open_standard_streams, visible

P = ParamSpec("P")
SURROGATE = re.compile("[\ud800-\udfff]")
OUT_OF_MEMORY = "error: there is not enough memory for this"


def main() -> None:
    """The `seq2attn` command. Output is UTF-8 in any locale, like the text that is read."""
    leave_out_working_directory()
    open_standard_streams()
    try:
        handle_errors(app)(prog_name="seq2attn")
    except typer.Exit as end:
        sys.exit(end.exit_code)


def handle_errors(command: Callable[P, None]) -> Callable[P, None]:
    """`command` with a traceback for bugs only: an error of the user exits with 2, Ctrl-C with 130."""

    @functools.wraps(command)
    def run(*args: P.args, **options: P.kwargs) -> None:
        try:
            command(*args, **options)
            sys.stdout.flush()
        except UserError as error:
            # Messages about configs begin with their place, like those of compilers.
            message = name_options(str(error))
            raise _exit(2, message if isinstance(error, ConfigError) else f"error: {message}") from None
        except KeyboardInterrupt:
            raise _exit(130, "\ninterrupted") from None
        except OSError as error:
            is_closed_pipe = isinstance(error, BrokenPipeError)  # of `| head`
            if is_closed_pipe or error.filename == STANDARD_OUTPUT:  # discard what is still buffered
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if is_closed_pipe:
                raise typer.Exit(141) from None
            place = f"{error.filename}: " if error.filename else ""
            raise _exit(2, f"error: {place}{error.strerror or error}") from None
        except UnicodeEncodeError as error:
            # Names and arguments that are not UTF-8 have surrogates.
            line = next((line for line in error.object.split("\n") if SURROGATE.search(line)), None)
            if line is None:
                raise
            raise _exit(2, f"error: {line[:200]}: is not UTF-8; give it another name") from None
        except (typer.Exit, typer.Abort):
            raise
        except MemoryError:  # before anything else is imported
            raise _exit(2, OUT_OF_MEMORY) from None
        except RuntimeError as error:
            from seq2attn.nn.device import is_oom_error

            if not is_oom_error(error):
                raise
            raise _exit(2, OUT_OF_MEMORY) from None

    return run


def _exit(code: int, message: str) -> typer.Exit:
    print(visible(message), file=sys.stderr)
    return typer.Exit(code)


def command_group(description: str, *commands: Callable[..., None]) -> typer.Typer:
    """A command with subcommands, named after their functions."""
    group = typer.Typer(
        help=description,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,  # importing rich would take longer than all the rest of `--help`
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for command in commands:
        name = command.__name__.rstrip("_").replace("_", "-")  # `import` is no name in Python
        group.command(name)(handle_errors(command))
    return group


def _print_version(is_requested: bool) -> None:
    if is_requested:
        from seq2attn.version import __version__

        typer.echo(f"seq2attn {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


HELP = """\
A toolkit for neural machine translation: encoders, decoders and attention combined in one YAML file.

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
    explore.explore,
    compare.compare,
    align.align,
    score.score,
    synthetic_corpus.distill,
    synthetic_corpus.back_translate,
    train.prepare,
    train.average,
    export.export,
    import_model.import_,
    sweep.sweep,
    sweep.reproduce,
    speedrun.speedrun,
    doctor.doctor,
)
app.callback()(_options)
app.add_typer(
    command_group("Check, show and describe configs.", config.check, config.show, config.schema), name="config"
)
