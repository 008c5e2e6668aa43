"""Places of errors in configs: file, line and column, with a caret under the line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from yaml.error import Mark

from seq2attn.errors import ConfigError

COMMAND_LINE = "<command line>"
MAX_SHOWN = 20
"""Maximum number of errors of one config that are shown; the others are counted."""


@dataclass(frozen=True)
class Diagnostic:
    """An error in a config, with its range in a file or on the command line."""

    message: str
    start: Mark
    end: Mark | None = None

    @property
    def sort_key(self) -> tuple[str, int, int]:
        """Place of the diagnostic, for sorting."""
        return str(self.start.name), self.start.line, self.start.column

    def __str__(self) -> str:
        line, column = source_line(self.start), self.start.column
        ends_here = self.end is not None and self.end.line == self.start.line
        width = (self.end.column if self.end and ends_here else len(line)) - column
        number, indent = str(self.start.line + 1), re.sub(r"[^\t]", " ", line[:column])
        margin = " " * len(number)
        return (
            f"{self.start.name}:{number}:{column + 1}: {self.message}\n"
            f"{margin} |\n{number} | {line}\n{margin} | {indent}{'^' * max(width, 1)}"
        )


def source_line(mark: Mark) -> str:
    """The line of YAML with `mark`."""
    rest = (mark.buffer or "")[mark.pointer - mark.column :]
    return re.split("[\r\n\x85\u2028\u2029\0]", rest, maxsplit=1)[0].rstrip()


def format_diagnostics(path: Path, diagnostics: Sequence[Diagnostic], more: int = 0) -> ConfigError:
    """The diagnostics of the config at `path` as one message, in the order of their places, at most MAX_SHOWN of them.

    `more`: number of further errors, which are only counted.
    """
    unique = {(*diagnostic.sort_key, diagnostic.message): diagnostic for diagnostic in diagnostics}
    blocks = [str(unique[place]) for place in sorted(unique)[:MAX_SHOWN]]
    total = len(unique) + more
    if total > len(blocks):
        blocks.append(f"... and {total - len(blocks):,} more")
    return ConfigError("\n\n".join([*blocks, f"{total:,} mistake{'s' * (total > 1)} in {path}"]))
