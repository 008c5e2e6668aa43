"""Values of a config as plain data, with the YAML node that each came from, and errors with their places."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from yaml import Node, ScalarNode
from yaml.error import Mark

from seq2attn.errors import ConfigError

Names: TypeAlias = tuple[str, ...]
"""Keys and indices from the root of a config to a value."""
MISSING: Any = object()


class Entry(NamedTuple):
    """The YAML of a value, and of its key if it has one."""

    key: Node | None
    node: Node


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
        rest, column = (self.start.buffer or "")[self.start.pointer - self.start.column :], self.start.column
        line = re.split("[\r\n\x85\u2028\u2029\0]", rest, maxsplit=1)[0].rstrip()
        ends_here = self.end is not None and self.end.line == self.start.line
        width = (self.end.column if self.end and ends_here else len(line)) - column
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
    return ConfigError("\n\n".join([*blocks, f"{total:,} mistake{'s' * (total > 1)} {where}"]))


@dataclass(frozen=True)
class YAMLTree:
    """A config before validation: dicts, lists and scalars."""

    data: Any
    entries: Mapping[Names, Entry]  # of each value; values that were replaced may have one too

    def find(self, names: Names) -> tuple[Names, Any]:
        """The value at `names`, or at the longest part of these that exists, and that part."""
        value = self.data
        for depth, name in enumerate(names):
            if (inner := child(value, name)) is MISSING:
                return names[:depth], value
            value = inner
        return names, value

    def diagnostic(self, names: Names, message: str, *, at_key: bool = False) -> Diagnostic:
        """A diagnostic at a value or the last existing one above, or at its key if the value has several lines."""
        key, node = self.entries[self.find(names)[0]]
        is_block = not isinstance(node, ScalarNode) and node.start_mark.line != node.end_mark.line
        place = key if key and (is_block or at_key) else node
        return Diagnostic(message, place.start_mark, place.end_mark)

    def subtree(self, names: Names) -> YAMLTree:
        """The value at `names`, which exists, as a tree."""
        depth = len(names)
        entries = {place[depth:]: entry for place, entry in self.entries.items() if place[:depth] == names}
        return YAMLTree(self.find(names)[1], entries)

    def nest(self, names: Names, entries: Iterable[Entry]) -> YAMLTree:
        """The tree as the value at `names` of an otherwise empty one; `entries` are those of the mappings above it."""
        data = self.data
        for name in reversed(names):
            data = {name: data}
        above = {names[:depth]: entry for depth, entry in enumerate(entries)}
        return YAMLTree(data, {**above, **{(*names, *place): entry for place, entry in self.entries.items()}})


def child(value: Any, name: str) -> Any:
    """The value of a key or index; MISSING if there is none."""
    if isinstance(value, list):
        return value[int(name)] if name.isdecimal() and int(name) < len(value) else MISSING
    return value.get(name, MISSING) if isinstance(value, dict) else MISSING


DEFAULT_KINDS = {"align": "global", "lr_schedule": "inverse-sqrt", "optimizer": "adam", "search": "beam"}
"""The kinds that may be left out, by the keys of their components."""


def merge(base: YAMLTree, over: YAMLTree) -> YAMLTree:
    """`over` merged into `base`: mappings recursively; other values, and components of another kind, replace.

    A component whose kind alone was overridden, such as by `model.encoder.kind=lstm`, is merged too.
    """
    entries = {**base.entries, **over.entries}

    def merged(one: Any, other: Any, names: Names) -> Any:
        if not (isinstance(one, dict) and isinstance(other, dict)):
            return other
        node, old = over.entries[names].node, base.entries[names].node
        kinds = one.get("kind", DEFAULT_KINDS.get("".join(names[-1:]))), other.get("kind")
        if node.value and None not in kinds and kinds[0] != kinds[1]:
            return other
        if node.start_mark.name == COMMAND_LINE and (old.value or not node.value):
            entries[names] = base.entries[names]  # errors in the mapping have their place in a file rather
        common = {key: merged(one[key], other[key], (*names, key)) for key in one if key in other}
        return {**one, **other, **common}

    return YAMLTree(merged(base.data, over.data, ()), entries)
