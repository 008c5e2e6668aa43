"""Cursor in a YAML tree, with the type that is expected at its place."""

from __future__ import annotations

import re
import types
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
    """The keys that may stand beside `key`."""
    exists: bool = True
    """Whether the file has all `names`; if not, `node` is the last that it has."""
    matches_shape: bool = True
    """False inside an alternative of another shape than what is written, where there is one of that shape."""

    @property
    def dotted_key(self) -> str:
        """The dotted key, as a reader would write it."""
        return ".".join(self.names)

    def diagnostic(self, message: str) -> Diagnostic:
        """A mistake in the value here; one that fills several lines is pointed at by its key."""
        block = not isinstance(self.node, ScalarNode) and self.node.start_mark.line != self.node.end_mark.line
        node = self.key if self.key and block else self.node
        return Diagnostic(message, node.start_mark, node.end_mark)

    def child(self, name: str) -> YAMLCursor:
        """One key or list item further in."""
        if name == "0" and self._stands_for_a_list:
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
    def _stands_for_a_list(self) -> bool:
        """Whether what is written is the one item of a list, which pydantic sees."""
        is_list = get_origin(self.expected_type) in (list, tuple)
        return self.exists and is_list and not isinstance(self.node, SequenceNode)

    def keys(self) -> tuple[str, ...] | None:
        """The keys of what is written here: of its kind, or none where no type is known; None for an unknown kind."""
        if self._stands_for_a_list:
            return self.child("0").keys()
        owner = self._alternative(kind_of(self.node))
        if is_model(owner):
            return tuple(owner.model_fields)
        return None if kinds(self.expected_type) else ()

    def resolve(self, loc: tuple[int | str, ...]) -> YAMLCursor:
        """Where pydantic's `loc` leads, which also names the chosen members of unions; the file does not."""
        spot = self
        for part in loc:
            if part == "[key]":
                spot = replace(spot, node=spot.key or spot.node)
            elif len(spot.alternatives()) > 1:
                spot = spot._choose(str(part))
            else:
                spot = spot.child(str(part))
        return spot

    def alternatives(self) -> list[Any]:
        """The members of the union that is expected here, or the one type that is."""
        found = members(self.expected_type)
        written = child(self.node, "kind")[1]
        kind = written and to_python(written)  # which knows its folder
        if isinstance(kind, str) and ":" in kind and any(is_model(member) for member in found):
            try:
                return [import_config_class(kind, "part")]
            except FieldError:
                return found
        return found

    def _alternative(self, label: str | None) -> Any:
        members = self.alternatives()
        if len(members) == 1:
            return members[0]
        return next((member for member in members if label and _is_called(member, label)), None)

    def _choose(self, label: str) -> YAMLCursor:
        chosen = self._alternative(label)
        fitting = [member for member in self.alternatives() if isinstance(self.node, _shape(member))]
        return replace(self, expected_type=chosen, matches_shape=not fitting or isinstance(self.node, _shape(chosen)))


def is_model(expects: Any) -> bool:
    """Whether a type is a pydantic model, whose keys are known."""
    return isinstance(expects, type) and issubclass(expects, BaseModel)


def kinds(expects: Any) -> list[str]:
    """What `kind` may be in a model, or in the models of a union."""
    models = [member for member in members(expects) if is_model(member)]
    return [kind for model in models if "kind" in model.model_fields for kind in _kinds(model)]


def _kinds(model: type[BaseModel]) -> tuple[str, ...]:
    return get_args(model.model_fields["kind"].annotation)


def members(expects: Any) -> list[Any]:
    """The members of a union, or the one type that is expected; without None."""
    origin = get_origin(expects)
    if origin is Annotated:
        return members(get_args(expects)[0])
    if origin in (Union, types.UnionType):
        return [m for arg in get_args(expects) if arg is not types.NoneType for m in members(arg)]
    return [expects]


def _inside(owner: Any, name: str) -> Any:
    """The type of one key or item of `owner`; None where it says nothing about it."""
    if is_model(owner):
        return owner.model_fields[name].annotation if name in owner.model_fields else None
    args = get_args(owner)
    if get_origin(owner) is Literal or not args:
        return None
    is_fixed_tuple = get_origin(owner) is tuple and args[-1] is not Ellipsis
    return args[min(int(name), len(args) - 1)] if is_fixed_tuple else [a for a in args if a is not Ellipsis][-1]


def _is_called(member: Any, label: str) -> bool:
    """Whether pydantic calls this member of a union `label`: by its kind, or by its type."""
    if is_model(member):
        return label in kinds(member) or re.search(rf"\b{member.__name__}\b", label) is not None
    return label.split("[")[0] == getattr(get_origin(member) or member, "__name__", None)


def _shape(member: Any) -> type[Node]:
    origin = get_origin(member) or member
    if is_model(member) or origin is dict:
        return MappingNode
    return SequenceNode if origin in (list, tuple, set, frozenset) else ScalarNode
