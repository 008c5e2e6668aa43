"""A config as YAML: complete, in the order of its fields, and where each value comes from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml
from yaml import Node, ScalarNode

from seq2attn.config.base import Config
from seq2attn.config.place import COMMAND_LINE, child


def dump(config: Config) -> str:
    """All of `config`, defaults included, as YAML that `load` reads back to the same config."""
    data = _kinds_first(config.model_dump(mode="json"))
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=float("inf"))


def show(config: Config, tree: Node) -> str:
    """`dump`, with a comment on each line: where in `tree`, from `load_with_places`, its value stands."""
    text = dump(config)
    shown = yaml.compose(text, yaml.SafeLoader)
    lines = text.splitlines()
    origins = {node.end_mark.line: _origin(tree, names) for node, names in _leaves(shown, ())}
    width = max((len(lines[at]) for at in origins), default=0)
    for at, origin in origins.items():
        lines[at] = f"{lines[at]:{width}}  # {origin}"
    return "\n".join(lines) + "\n"


def _kinds_first(data: Any) -> Any:
    """`data` with each `kind` at the head of its mapping, also where the fields before it are inherited."""
    if isinstance(data, dict):
        head = {"kind": data["kind"]} if "kind" in data else {}
        return {key: _kinds_first(value) for key, value in (head | data).items()}
    return [_kinds_first(item) for item in data] if isinstance(data, list) else data


def _leaves(node: Node | None, names: tuple[str, ...]) -> Iterator[tuple[Node, tuple[str, ...]]]:
    """The values of a YAML tree that stand in one line, and the keys that lead to them."""
    if node is None:
        return
    if isinstance(node, ScalarNode) or not node.value:
        yield node, names
    elif isinstance(node.value[0], tuple):
        for key, value in node.value:
            yield from _leaves(value, (*names, key.value))
    else:
        for number, item in enumerate(node.value):
            yield from _leaves(item, (*names, str(number)))


def _origin(tree: Node, names: tuple[str, ...]) -> str:
    node = tree
    for name in names:
        if isinstance(node, ScalarNode):
            break  # a shorthand, which stands for all that is below it
        value = child(node, name)[1]
        if value is None:
            return "default"
        node = value
    place = node.start_mark
    return "command line" if place.name == COMMAND_LINE else f"{place.name}:{place.line + 1}"
