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
    wrong: dict[str, tuple[YAMLCursor, list[str]]] = {}
    details = _without_emptied(error.errors(include_url=False))
    left = 0
    for number, detail in enumerate(details):
        if len(diagnostics) + len(wrong) >= MAX_SHOWN:
            left = len(details) - number
            break
        cursor = root.resolve(detail["loc"])
        if detail["type"] in ("value_error", "assertion_error"):
            diagnostics += _across(cursor, detail["ctx"]["error"])
        elif expected := _expected(detail):
            # Each member of a union complains; what is written was meant for one of its own shape.
            if cursor.matches_shape:
                wrong.setdefault(cursor.dotted_key, (cursor, []))[1].append(expected)
        elif cursor.matches_shape:
            diagnostics.append(_other(cursor, detail))
    diagnostics += [_mismatch(cursor, expected) for cursor, expected in wrong.values()]
    for mistake in check_rules(model.rules, valid_fields(model, to_python(tree), error)):
        diagnostics += _across(root, mistake)
    return diagnostics, left


def _without_emptied(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """Error details without the lengths of lists that pydantic emptied because of errors in their items."""
    places = {detail["loc"][:depth] for detail in details for depth in range(len(detail["loc"]))}
    return [detail for detail in details if detail["type"] != "too_short" or detail["loc"] not in places]


def locate(mistakes: Sequence[FieldError], model: type[Config], tree: Node) -> list[Diagnostic]:
    """Diagnostics for errors that the user of a valid config found."""
    return _across(YAMLCursor(tree, model), FieldErrors(mistakes))


def _across(cursor: YAMLCursor, error: Exception) -> list[Diagnostic]:
    """Diagnostics of a validator, ours or of a plug-in, at `cursor` or below it."""
    if isinstance(error, FieldErrors):
        return [diagnostic for mistake in error.errors for diagnostic in _across(cursor, mistake)]
    message = str(error)
    if isinstance(error, FieldError):
        message = error.message
        for name in error.field.split(".") if error.field else []:
            cursor = cursor.child(name)
    return [cursor.diagnostic(f"`{cursor.dotted_key}`: {message}" if cursor.names else message)]


def _other(cursor: YAMLCursor, detail: ErrorDetails) -> Diagnostic:
    """Diagnostic of a wrong key or kind, and of all other errors in pydantic's words."""
    match detail["type"]:
        case "extra_forbidden":
            key = cursor.key or cursor.node
            ours = our_key(cursor.names[-1])
            tip = f"; seq2attn calls it {ours}" if ours else suggest_or_list(cursor.names[-1], cursor.sibling_keys)
            message = f"unknown key `{cursor.dotted_key}`{tip}"
            return Diagnostic(message, key.start_mark, key.end_mark)
        case "missing":
            return cursor.diagnostic(f"`{cursor.dotted_key}` is missing")
        case "union_tag_not_found" if not isinstance(cursor.node, MappingNode):
            return _mismatch(cursor, ["a mapping"])
        case "union_tag_not_found":
            return cursor.diagnostic(
                f"`{cursor.dotted_key}` does not say its kind; known: {', '.join(kinds(cursor.expected_type))}"
            )
        case "union_tag_invalid":
            kind, found = cursor.child("kind"), kind_of(cursor.node)
            if found is None:
                return _mismatch(kind, ["text"])
            plugin_hint = "; a plug-in is written `package.module:Class`"
            hint = plugin_hint if "." in found else suggest_or_list(found, kinds(cursor.expected_type))
            return kind.diagnostic(f"`{cursor.dotted_key}` has no kind `{found}`{hint}")
        case _:
            text = detail["msg"].replace(" after validation", "")
            return cursor.diagnostic(f"`{cursor.dotted_key}`: {text[0].lower()}{text[1:]}")


def _expected(detail: ErrorDetails) -> str | None:
    """The expected value in words; None for errors of another sort."""
    for words, errors in TYPE_NAMES.items():
        if detail["type"] in errors:
            return words
    found = re.fullmatch(r"Input should be (.*)", detail["msg"])
    return found[1] if found else None


def _mismatch(cursor: YAMLCursor, expected: Sequence[str]) -> Diagnostic:
    wanted = " or ".join(dict.fromkeys(expected))
    tip = _tip(cursor.node, wanted)
    if isinstance(cursor.node, ScalarNode) and cursor.node.value.lower() in kinds(cursor.expected_type):
        tip = f"; write `{{kind: {cursor.node.value.lower()}}}`"
    return cursor.diagnostic(f"`{cursor.dotted_key}` should be {wanted}, not {_shown(cursor.node)}{tip}")


def _shown(node: Node) -> str:
    """A scalar as the file writes it, else \"a list\" or \"a mapping\"."""
    if not isinstance(node, ScalarNode):
        return "a list" if isinstance(node, SequenceNode) else "a mapping"
    return repr(str(to_python(node))) if isinstance(to_python(node), str) else node.value or "nothing"


def _tip(node: Node, wanted: str) -> str:
    value = to_python(node)
    quoted = re.findall(r"'([^']*)'", wanted)
    if isinstance(value, bool | int | float) and (node.value in quoted or "text" in wanted):
        reads = f"YAML reads `{node.value}` as {str(value).lower()}"
        return f"; {reads}: put it in quotes" if str(value).lower() != node.value else "; put it in quotes"
    if isinstance(value, str) and quoted:
        return suggest(value, quoted)
    if wanted == "a whole number" and isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?[eE]\+?\d+", value):
        return f"; write {float(value):.0f}" if float(value).is_integer() else ""
    return ""
