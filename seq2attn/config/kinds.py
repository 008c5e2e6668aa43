"""The types of the keys of a config: its sections, and the kinds of its components."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from seq2attn.config.base import Config, FieldError, default_kind, members
from seq2attn.config.plugin import import_config_class
from seq2attn.config.yaml_tree import Names, YAMLValue


@dataclass(frozen=True)
class KeyType:
    """The type of the value at a key of a config."""

    annotation: Any
    default_kind: str | None = None

    @property
    def kinds(self) -> dict[str, type[Config]]:
        """The kinds that a component, or each of a list of components, may have; none for a section."""
        kinds: dict[str, type[Config]] = {}
        for member in members(self.annotation):
            if _is_config(member):
                kind = member.model_fields.get("kind")
                kinds |= {} if kind is None else dict.fromkeys(get_args(kind.annotation), member)
            elif get_origin(member) in (list, tuple):
                kinds |= KeyType(get_args(member)[0]).kinds
        return kinds

    def config_class(self, value: YAMLValue) -> type[Config] | None:
        """The class of a section or component; None for one of an unknown kind, or another value."""
        kind = value.kind if isinstance(value.kind, str) else self.default_kind
        if kind is not None and ":" in kind:
            with suppress(FieldError):
                return import_config_class(kind, "")  # which knows its file
        kinds = self.kinds
        sections = [member for member in members(self.annotation) if _is_config(member)]
        return kinds.get(str(kind)) if kinds else sections[0] if sections else None

    def child(self, value: YAMLValue, name: str) -> KeyType:
        """The type of a key or item of the value."""
        section = self.config_class(value)
        if section is not None and name in section.model_fields:
            field = section.model_fields[name]
            return KeyType(field.annotation, default_kind(field))
        for member in members(self.annotation):
            if isinstance(value.content, dict) and get_origin(member) is dict:
                return KeyType(get_args(member)[1])
            if isinstance(value.content, list) and name.isdecimal() and get_origin(member) in (list, tuple):
                items = [item for item in get_args(member) if item is not Ellipsis]
                return KeyType(items[min(int(name), len(items) - 1)])
        return KeyType(None)


def key_type(model: type[Config], tree: YAMLValue, names: Names) -> KeyType:
    """The type of the value at `names` of a config."""
    key_type = KeyType(model)
    for depth, name in enumerate(names):
        key_type = key_type.child(tree.find(names[:depth])[1], name)
    return key_type


def _is_config(member: Any) -> bool:
    return isinstance(member, type) and issubclass(member, Config)
