"""Values of a config before validation, each with the YAML that it came from, and errors with their places."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from yaml import Node, ScalarNode
from yaml.error import Mark

from seq2attn.errors import ConfigError
from seq2attn.io.terminal import plural

Names: TypeAlias = tuple[str, ...]
"""Keys and indices from the root of a config to a value."""
COMMAND_LINE = "<command line>"
MAX_SHOWN = 20
"""Maximum number of errors of one config that are shown; the others are counted."""


@dataclass(frozen=True)
class Diagnostic:
    """An error in a config, with its range in a file or on the command line."""

    message: str
    start: Mark
    end: Mark

    @classmethod
    def at(cls, node: Node, message: str) -> Diagnostic:
        """A diagnostic at the text of a node."""
        return cls(message, node.start_mark, node.end_mark)

    @property
    def sort_key(self) -> tuple[str, int, int]:
        """Place of the diagnostic, for sorting."""
        return str(self.start.name), self.start.line, self.start.column

    def __str__(self) -> str:
        rest, column = (self.start.buffer or "")[self.start.pointer - self.start.column :], self.start.column
        line = re.split("[\r\n\x85\u2028\u2029\0]", rest, maxsplit=1)[0].rstrip()
        end = self.end.column if self.end.line == self.start.line else len(line)
        width = min(end, len(line)) - column
        number, indent = str(self.start.line + 1), re.sub(r"[^\t]", " ", line[:column])
        margin = " " * len(number)
        return (
            f"{self.start.name}:{number}:{column + 1}: {self.message}\n"
            f"{margin} |\n{number} | {line}\n{margin} | {indent}{'^' * max(width, 1)}"
        )


def format_diagnostics(path: Path, diagnostics: Sequence[Diagnostic], more: int = 0) -> ConfigError:
    """The diagnostics of the config at `path` as one message, in the order of their places, at most MAX_SHOWN of them.

    `more`: number of further errors, which are only counted.
    """
    unique = {(*diagnostic.sort_key, diagnostic.message): diagnostic for diagnostic in diagnostics}
    blocks = [str(unique[place]) for place in sorted(unique)[:MAX_SHOWN]]
    total = len(unique) + more
    if total > len(blocks):
        blocks.append(f"... and {total - len(blocks):,} more")
    places = {diagnostic.start.name for diagnostic in diagnostics}
    where = "on the command line" if places == {COMMAND_LINE} else f"in {path}"
    return ConfigError("\n\n".join([*blocks, f"{plural(total, 'mistake')} {where}"]))


@dataclass(frozen=True)
class YAMLValue:
    """A value of a config before validation, with its YAML and that of its key if it has one."""

    content: Any  # a scalar, or a dict or list of YAMLValues
    node: Node
    key: Node | None = None

    @cached_property
    def data(self) -> Any:
        """The value as dicts, lists and scalars."""
        if isinstance(self.content, dict):
            return {name: value.data for name, value in self.content.items()}
        return [item.data for item in self.content] if isinstance(self.content, list) else self.content

    @property
    def kind(self) -> Any:
        """The value of `kind` in a mapping; None if there is none."""
        kind = self.child("kind")
        return kind.data if kind else None

    def child(self, name: str) -> YAMLValue | None:
        """The value of a key or index; None if there is none."""
        if isinstance(self.content, list):
            return self.content[int(name)] if name.isdecimal() and int(name) < len(self.content) else None
        return self.content.get(name) if isinstance(self.content, dict) else None

    def find(self, names: Names) -> tuple[Names, YAMLValue]:
        """The value at `names`, or at the longest part of these that exists, and that part."""
        value = self
        for depth, name in enumerate(names):
            if (inner := value.child(name)) is None:
                return names[:depth], value
            value = inner
        return names, value

    def diagnostic(self, names: Names, message: str, *, at_key: bool = False) -> Diagnostic:
        """A diagnostic at a value or the last existing one above, or at its key if the value has several lines."""
        value = self.find(names)[1]
        node = value.node
        is_block = not isinstance(node, ScalarNode) and node.start_mark.line != node.end_mark.line
        return Diagnostic.at(value.key if value.key and (is_block or at_key) else node, message)
