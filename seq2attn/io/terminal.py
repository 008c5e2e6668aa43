"""Standard output and standard error of a command: safe for the terminal, with errors for lost output."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

Log = Callable[[str], None]
STANDARD_OUTPUT = "standard output"
_CONTROLS = {*range(0x20), *range(0x7F, 0xA0)} - {ord("\n"), ord("\t")}
_DIRECTIONS = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_VISIBLE = {
    **{code: f"\\x{code:02x}" for code in _CONTROLS},
    **{code: f"\\u{code:04x}" for code in (*_DIRECTIONS, *range(0xD800, 0xE000))},
}

ARGUMENT = re.compile("^[0-9]+ \\| .*|(?<![`'])``(?P<name>[a-z_]+)(?:=(?P<value>(?:.|\n)*?))?``(?![`'])", re.MULTILINE)
"""An argument of a function in a message, such as ``beam`` or ``beam=5``, or a line of a config, which may have such
text too; in other quotes it is text of the user."""
OPTIONS = {
    "as_json": "json",
    "input_file": "input",
    "kind": "attention-kind",
    "metrics": "metric",
    "output_file": "output",
    "output_format": "format",
    "overrides": "set",
    "punctuation": "no-punctuation",
    "references": "reference",
    "source_language": "from",
    "target_language": "to",
}
"""Options of the command line with another name than their argument."""


def visible(text: str) -> str:
    """Text with escaped control characters, direction overrides and surrogates."""
    return text.translate(_VISIBLE)


def shorten(text: str, max_length: int) -> str:
    """Text of at most `max_length` characters, with an ellipsis where some are left out."""
    return text if len(text) <= max_length else text[: max_length - 1] + "…"


def plural(number: float, noun: str, form: str = ",") -> str:
    """A number with its noun: `1 pair`, `2,000 pairs`."""
    text = f"{number:{form}}"
    return f"{text} {noun}{'s' * (text != '1')}"


def name_options(message: str) -> str:
    """A message with options in place of arguments: ``beam=5`` becomes `--beam 5`."""

    def option(argument: re.Match[str]) -> str:
        if argument["name"] is None:
            return argument[0]
        name = OPTIONS.get(argument["name"], argument["name"].replace("_", "-"))
        return f"--{name}" if argument["value"] is None else f"--{name} {argument['value']}"

    return ARGUMENT.sub(option, message)


def print_warnings(warnings: Iterable[str]) -> None:
    """Print warnings to standard error."""
    for line in warnings:
        print(f"warning: {name_options(line)}", file=sys.stderr)


class Output:
    """Standard output: unchanged text, except on a terminal, where it is escaped; an OSError names the stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            error.filename = STANDARD_OUTPUT
            raise

    def _escape(self, text: str) -> str:
        return visible(text) if self._stream.isatty() else text

    def write(self, text: str) -> int:
        """The number of characters of `text`. Raises OSError."""
        with self._errors():
            self._stream.write(self._escape(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """All lines, one after the other."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Write of everything that is buffered. Raises OSError."""
        with self._errors():
            self._stream.flush()


class Messages(Output):
    """Standard error: escaped text; errors are ignored, so that lost messages never end a command."""

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with suppress(OSError):
            yield

    def _escape(self, text: str) -> str:
        start = "\r" * text.startswith("\r")  # of a progress bar
        return start + visible(text.removeprefix(start))


def open_standard_streams() -> None:
    """Standard output and standard error as above, in UTF-8 in any locale.

    A closed stream gets a descriptor, so that no file that is opened later is mistaken for it: writing to standard
    output is then an error, and messages are lost.
    """
    if sys.stdin is None:
        os.open(os.devnull, os.O_RDONLY)
    sys.stdout = Output(_open(sys.stdout, os.O_RDONLY))
    sys.stderr = Messages(_open(sys.stderr, os.O_WRONLY))


def _open(stream: TextIO | None, mode: int) -> TextIO:
    if stream is None:
        return os.fdopen(os.open(os.devnull, mode), "w", encoding="utf-8")
    if reconfigure := getattr(stream, "reconfigure", None):
        reconfigure(encoding="utf-8", errors="backslashreplace")
    return stream
