"""Values of the command line, laid over those of files."""

from __future__ import annotations

from collections.abc import Iterator

from yaml import MappingNode, Node

from seq2attn.config.base import Config
from seq2attn.config.source_location import child, kind_of
from seq2attn.config.yaml_cursor import YAMLCursor
from seq2attn.config.yaml_reader import merge

Names = tuple[str, ...]


def override(tree: MappingNode, given: MappingNode, model: type[Config]) -> tuple[MappingNode, list[str]]:
    """`given` laid over `tree`, and a message for each changed kind whose former keys had to be dropped.

    Keys of a part whose kind changes are kept where the new kind has them too.
    """
    merged, messages = merge(tree, given), list[str]()
    for names in _changed_kinds(tree, given):
        part = YAMLCursor(merged, model)
        for name in names:
            part = part.child(name)
        known = part.keys()
        if known is None:
            continue
        own = {key.value for key, _ in _at(given, names).value}
        dropped = [key.value for key, _ in part.node.value if key.value not in {*known, *own}]
        part.node.value = [(key, value) for key, value in part.node.value if key.value not in dropped]
        if dropped:
            keys = ", ".join(f"`{'.'.join((*names, key))}`" for key in dropped)
            messages.append(f"`{'.'.join(names)}` of kind `{kind_of(part.node)}` has no {keys}: dropped")
    return merged, messages


def _changed_kinds(tree: Node, given: Node, names: Names = ()) -> Iterator[Names]:
    """The parts whose kind differs, outer ones first."""
    if not (isinstance(tree, MappingNode) and isinstance(given, MappingNode)):
        return
    before, after = kind_of(tree), kind_of(given)
    if before and after and before != after:
        yield names
    for key, value in given.value:
        inner = child(tree, key.value)[1]
        if inner is not None:
            yield from _changed_kinds(inner, value, (*names, key.value))


def _at(node: Node, names: Names) -> Node:
    for name in names:
        node = child(node, name)[1] or node
    return node
