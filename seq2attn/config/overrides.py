"""Overrides of the command line, merged into the YAML of files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import cast

from yaml import MappingNode, Node

from seq2attn.config.base import Config
from seq2attn.config.source_location import child, kind_of
from seq2attn.config.yaml_cursor import YAMLCursor
from seq2attn.config.yaml_reader import merge

Names = tuple[str, ...]


def override(tree: MappingNode, changes: MappingNode, model: type[Config]) -> tuple[MappingNode, list[str]]:
    """`changes` merged into `tree`, and a message for each component whose keys were dropped with its kind.

    A component whose kind changes keeps the keys that the new kind has too.
    """
    merged, messages = merge(tree, changes), list[str]()
    for names in _changed_kinds(tree, changes):
        part: YAMLCursor = reduce(YAMLCursor.child, names, YAMLCursor(merged, model))
        known = part.keys()
        if known is None:
            continue
        node = reduce(lambda node, name: child(node, name)[1] or node, names, cast(Node, changes))
        kept = {*known, *(key.value for key, _ in node.value)}
        dropped = [key.value for key, _ in part.node.value if key.value not in kept]
        part.node.value = [(key, value) for key, value in part.node.value if key.value in kept]
        if dropped:
            keys = ", ".join(f"`{'.'.join((*names, key))}`" for key in dropped)
            messages.append(f"`{'.'.join(names)}` of kind `{kind_of(part.node)}` has no {keys}: dropped")
    return merged, messages


def _changed_kinds(tree: Node, changes: Node, names: Names = ()) -> Iterator[Names]:
    """The components whose kind differs, outer ones first."""
    if not (isinstance(tree, MappingNode) and isinstance(changes, MappingNode)):
        return
    before, after = kind_of(tree), kind_of(changes)
    if before and after and before != after:
        yield names
    for key, value in changes.value:
        inner = child(tree, key.value)[1]
        if inner is not None:
            yield from _changed_kinds(inner, value, (*names, key.value))
