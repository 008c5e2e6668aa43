"""Standard output and standard error of a command: safe for the terminal, and honest about what cannot be written."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TextIO

STANDARD_OUTPUT = "standard output"
_CONTROLS = {*range(0x20), *range(0x7F, 0xA0)} - {ord("\n"), ord("\t")}
_DIRECTIONS = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_VISIBLE = {
    **{code: f"\\x{code:02x}" for code in _CONTROLS},
    **{code: f"\\u{code:04x}" for code in (*_DIRECTIONS, *range(0xD800, 0xE000))},
}


def visible(text: str) -> str:
    """Text in which control characters, changes of direction and halves of characters are written out."""
    return text.translate(_VISIBLE)


class _Stream:
    """A stream for text, with a way of its own to write."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """The number of characters that were given."""
        raise NotImplementedError

    def writelines(self, lines: Iterable[str]) -> None:
        """All lines, one after the other."""
        for line in lines:
            self.write(line)


class Output(_Stream):
    """Standard output: results as they are, except on a terminal; an OSError names it."""

    def write(self, text: str) -> int:
        """The number of characters that were given. Raises: OSError."""
        try:
            self._stream.write(visible(text) if self._stream.isatty() else text)
        except OSError as error:
            error.filename = STANDARD_OUTPUT
            raise
        return len(text)

    def flush(self) -> None:
        """Everything that is buffered is written. Raises: OSError."""
        try:
            self._stream.flush()
        except OSError as error:
            error.filename = STANDARD_OUTPUT
            raise


class Messages(_Stream):
    """Standard error: safe text, which is lost when it cannot be written. No work ends for that."""

    def write(self, text: str) -> int:
        """The number of characters that were given."""
        back = "\r" * text.startswith("\r")  # of a progress bar
        with suppress(OSError):
            self._stream.write(back + visible(text.removeprefix(back)))
        return len(text)

    def flush(self) -> None:
        """Everything that is buffered is written, if it can be."""
        with suppress(OSError):
            self._stream.flush()


def open_standard_streams() -> None:
    """Standard output and standard error as above, UTF-8 whatever the locale.

    A closed one gets a descriptor, so that no file that is opened later is taken for it: what is written to standard
    output is then an error, and messages are lost.
    """
    if sys.stdin is None:
        os.open(os.devnull, os.O_RDONLY)
    out = _usable(sys.stdout, os.O_RDONLY)
    messages = _usable(sys.stderr, os.O_WRONLY)
    sys.stdout, sys.stderr = Output(out), Messages(messages)


def _usable(stream: TextIO | None, mode: int) -> TextIO:
    if stream is None:
        return os.fdopen(os.open(os.devnull, mode), "w", encoding="utf-8")
    if reconfigure := getattr(stream, "reconfigure", None):
        reconfigure(encoding="utf-8", errors="backslashreplace")
    return stream
