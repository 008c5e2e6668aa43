"""Cursor in a YAML tree, with the type that is expected at its place."""

from __future__ import annotations

import re
import types
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from seq2attn.config.base import FieldError
from seq2attn.config.plugin import import_config_class
from seq2attn.config.source_location import Diagnostic, child, kind_of
from seq2attn.config.yaml_reader import to_python


@dataclass(frozen=True)
class YAMLCursor:
    """A node of the YAML tree, and its expected type."""

    node: Node
    expected_type: Any
    key: Node | None = None
    names: tuple[str, ...] = ()
    sibling_keys: tuple[str, ...] = ()
    """All valid keys of the mapping with `key`."""
    exists: bool = True
    """False if the file lacks some of `names`; `node` is then that of the last existing one."""
    matches_shape: bool = True
    """False inside a member of a union that does not match the shape of the value, if another member does."""

    @property
    def dotted_key(self) -> str:
        """The dotted key, such as `model.encoder.dim`."""
        return ".".join(self.names)

    def diagnostic(self, message: str) -> Diagnostic:
        """A diagnostic at the value, or at its key if the value has several lines."""
        block = not isinstance(self.node, ScalarNode) and self.node.start_mark.line != self.node.end_mark.line
        node = self.key if self.key and block else self.node
        return Diagnostic(message, node.start_mark, node.end_mark)

    def child(self, name: str) -> YAMLCursor:
        """The cursor of a key or list item."""
        if name == "0" and self._is_single_item:
            return replace(self, expected_type=_inside(self.expected_type, name))
        names = (*self.names, name)
        if not self.exists:
            return replace(self, names=names)
        owner = self._alternative(kind_of(self.node))
        known = tuple(owner.model_fields) if is_model(owner) else ()
        key, value = child(self.node, name)
        if value is None:
            return replace(self, names=names, sibling_keys=known, exists=False)
        return YAMLCursor(value, _inside(owner, name), key, names, known, matches_shape=self.matches_shape)

    @property
    def _is_single_item(self) -> bool:
        """True for a single value in the place of a list, which pydantic validates as a list of one."""
        is_list = get_origin(self.expected_type) in (list, tuple)
        return self.exists and is_list and not isinstance(self.node, SequenceNode)

    def keys(self) -> tuple[str, ...] | None:
        """The valid keys of the mapping here, by its kind; none if its type is unknown, None if its kind is."""
        if self._is_single_item:
            return self.child("0").keys()
        owner = self._alternative(kind_of(self.node))
        if is_model(owner):
            return tuple(owner.model_fields)
        return None if kinds(self.expected_type) else ()

    def resolve(self, loc: tuple[int | str, ...]) -> YAMLCursor:
        """The cursor at pydantic's `loc`, which names members of unions, too."""
        cursor = self
        for part in loc:
            if part == "[key]":
                cursor = replace(cursor, node=cursor.key or cursor.node)
            elif len(cursor.alternatives()) > 1:
                cursor = cursor._choose(str(part))
            else:
                cursor = cursor.child(str(part))
        return cursor

    def alternatives(self) -> list[Any]:
        """The members of the expected union, or the one expected type."""
        types = members(self.expected_type)
        node = child(self.node, "kind")[1]
        kind = node and to_python(node)  # a PathString
        if isinstance(kind, str) and ":" in kind and any(is_model(member) for member in types):
            with suppress(FieldError):
                return [import_config_class(kind, "component")]
        return types

    def _alternative(self, label: str | None) -> Any:
        members = self.alternatives()
        if len(members) == 1:
            return members[0]
        return next((member for member in members if label and _is_called(member, label)), None)

    def _choose(self, label: str) -> YAMLCursor:
        member = self._alternative(label)
        any_matches = any(isinstance(self.node, _shape(other)) for other in self.alternatives())
        matches = isinstance(self.node, _shape(member))
        return replace(self, expected_type=member, matches_shape=matches or not any_matches)


def is_model(expects: Any) -> bool:
    """True for a pydantic model, whose keys are known."""
    return isinstance(expects, type) and issubclass(expects, BaseModel)


def kinds(expects: Any) -> list[str]:
    """Valid values of `kind` in a model, or in the models of a union."""
    fields = [member.model_fields for member in members(expects) if is_model(member)]
    return [kind for model in fields if "kind" in model for kind in get_args(model["kind"].annotation)]


def members(expects: Any) -> list[Any]:
    """The members of a union without None, or the type itself."""
    origin = get_origin(expects)
    if origin is Annotated:
        return members(get_args(expects)[0])
    if origin in (Union, types.UnionType):
        return [m for arg in get_args(expects) if arg is not types.NoneType for m in members(arg)]
    return [expects]


def _inside(owner: Any, name: str) -> Any:
    """The type of a key or item of `owner`; None if it is unknown."""
    if is_model(owner):
        return owner.model_fields[name].annotation if name in owner.model_fields else None
    args = get_args(owner)
    if get_origin(owner) is Literal or not args:
        return None
    is_fixed_tuple = get_origin(owner) is tuple and args[-1] is not Ellipsis
    return args[min(int(name), len(args) - 1)] if is_fixed_tuple else [a for a in args if a is not Ellipsis][-1]


def _is_called(member: Any, label: str) -> bool:
    """True if `label` is pydantic's name for a member of a union: its kind or its type."""
    if is_model(member):
        return label in kinds(member) or re.search(rf"\b{member.__name__}\b", label) is not None
    return label.split("[")[0] == getattr(get_origin(member) or member, "__name__", None)


def _shape(member: Any) -> type[Node]:
    origin = get_origin(member) or member
    if is_model(member) or origin is dict:
        return MappingNode
    return SequenceNode if origin in (list, tuple, set, frozenset) else ScalarNode
