"""Pydantic errors as messages about keys of the file, with their places."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from seq2attn.config.base import Config, FieldError, FieldErrors, check_rules, valid_fields
from seq2attn.config.hints import our_key, suggest, suggest_or_list
from seq2attn.config.source_location import MAX_SHOWN, Diagnostic, kind_of
from seq2attn.config.yaml_cursor import YAMLCursor, kinds
from seq2attn.config.yaml_reader import to_python

TYPE_NAMES = {
    "a whole number": ("int_type", "int_parsing", "int_from_float", "int_parsing_size"),
    "a number": ("float_type", "float_parsing"),
    "true or false": ("bool_type", "bool_parsing"),
    "text": ("string_type",),
    "a path": ("path_type",),
    "a list": ("list_type", "tuple_type", "set_type", "frozen_set_type"),
    "a mapping": ("dict_type", "model_type", "model_attributes_type"),
}


def explain(error: ValidationError, model: type[Config], tree: Node) -> tuple[list[Diagnostic], int]:
    """Diagnostics of `error` and of the rules across valid parts of `model`, and the number of errors left out.

    Errors are left out once there are as many diagnostics as are shown.
    """
    root = YAMLCursor(tree, model)
    diagnostics: list[Diagnostic] = []
    mismatches: dict[str, tuple[YAMLCursor, list[str]]] = {}
    details = _without_emptied(error.errors(include_url=False))
    num_omitted = 0
    for number, detail in enumerate(details):
        if len(diagnostics) + len(mismatches) >= MAX_SHOWN:
            num_omitted = len(details) - number
            break
        cursor = root.resolve(detail["loc"])
        if detail["type"] in ("value_error", "assertion_error"):
            diagnostics += _across(cursor, detail["ctx"]["error"])
        elif expected := _expected(detail):
            # Each member of a union reports an error; only those of the same shape as the value are relevant.
            if cursor.matches_shape:
                mismatches.setdefault(cursor.dotted_key, (cursor, []))[1].append(expected)
        elif cursor.matches_shape:
            diagnostics.append(_other(cursor, detail))
    diagnostics += [_mismatch(cursor, expected) for cursor, expected in mismatches.values()]
    for field_error in check_rules(model.rules, valid_fields(model, to_python(tree), error)):
        diagnostics += _across(root, field_error)
    return diagnostics, num_omitted


def _without_emptied(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """`details` without "too short" errors of lists that pydantic emptied because of errors in their items."""
    places = {detail["loc"][:depth] for detail in details for depth in range(len(detail["loc"]))}
    return [detail for detail in details if detail["type"] != "too_short" or detail["loc"] not in places]


def locate(errors: Sequence[FieldError], model: type[Config], tree: Node) -> list[Diagnostic]:
    """Diagnostics for errors in a valid config."""
    return _across(YAMLCursor(tree, model), FieldErrors(errors))


def _across(cursor: YAMLCursor, error: Exception) -> list[Diagnostic]:
    """Diagnostics for an error that a validator raised at `cursor` or below it."""
    if isinstance(error, FieldErrors):
        return [diagnostic for one in error.errors for diagnostic in _across(cursor, one)]
    message = str(error)
    if isinstance(error, FieldError):
        message = error.message
        for name in error.field.split(".") if error.field else []:
            cursor = cursor.child(name)
    return [cursor.diagnostic(f"`{cursor.dotted_key}`: {message}" if cursor.names else message)]


def _other(cursor: YAMLCursor, detail: ErrorDetails) -> Diagnostic:
    """Diagnostic of an unknown or missing key, a wrong kind, or any other error with pydantic's message."""
    match detail["type"]:
        case "extra_forbidden":
            key = cursor.key or cursor.node
            name = our_key(cursor.names[-1])
            hint = f"; seq2attn calls it {name}" if name else suggest_or_list(cursor.names[-1], cursor.sibling_keys)
            return Diagnostic(f"unknown key `{cursor.dotted_key}`{hint}", key.start_mark, key.end_mark)
        case "missing":
            return cursor.diagnostic(f"`{cursor.dotted_key}` is missing")
        case "union_tag_not_found" if not isinstance(cursor.node, MappingNode):
            return _mismatch(cursor, ["a mapping"])
        case "union_tag_not_found":
            return cursor.diagnostic(
                f"`{cursor.dotted_key}` has no `kind`; known: {', '.join(kinds(cursor.expected_type))}"
            )
        case "union_tag_invalid":
            place, kind = cursor.child("kind"), kind_of(cursor.node)
            if kind is None:
                return _mismatch(place, ["text"])
            plugin_hint = "; a plug-in is written `package.module:Class`"
            hint = plugin_hint if "." in kind else suggest_or_list(kind, kinds(cursor.expected_type))
            return place.diagnostic(f"`{cursor.dotted_key}` has no kind `{kind}`{hint}")
        case _:
            text = detail["msg"].replace(" after validation", "")
            return cursor.diagnostic(f"`{cursor.dotted_key}`: {text[0].lower()}{text[1:]}")


def _expected(detail: ErrorDetails) -> str | None:
    """Description of the expected value; None for errors that are not about the value."""
    for name, errors in TYPE_NAMES.items():
        if detail["type"] in errors:
            return name
    match = re.fullmatch(r"Input should be (.*)", detail["msg"])
    return match[1] if match else None


def _mismatch(cursor: YAMLCursor, alternatives: Sequence[str]) -> Diagnostic:
    expected = " or ".join(dict.fromkeys(alternatives))
    hint = _hint(cursor.node, expected)
    if isinstance(cursor.node, ScalarNode) and cursor.node.value.lower() in kinds(cursor.expected_type):
        hint = f"; write `{{kind: {cursor.node.value.lower()}}}`"
    return cursor.diagnostic(f"`{cursor.dotted_key}` should be {expected}, not {_format(cursor.node)}{hint}")


def _format(node: Node) -> str:
    """A scalar as in the file, else "a list" or "a mapping"."""
    if not isinstance(node, ScalarNode):
        return "a list" if isinstance(node, SequenceNode) else "a mapping"
    return repr(str(to_python(node))) if isinstance(to_python(node), str) else node.value or "nothing"


def _hint(node: Node, expected: str) -> str:
    value = to_python(node)
    quoted = re.findall(r"'([^']*)'", expected)
    if isinstance(value, bool | int | float) and (node.value in quoted or "text" in expected):
        reads = f"YAML reads `{node.value}` as {str(value).lower()}"
        return f"; {reads}: put it in quotes" if str(value).lower() != node.value else "; put it in quotes"
    if isinstance(value, str) and quoted:
        return suggest(value, quoted)
    if expected == "a whole number" and isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?[eE]\+?\d+", value):
        return f"; write {float(value):.0f}" if float(value).is_integer() else ""
    return ""
