"""Every pydantic error as one line about a key as the file writes it, at its place in the file."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from seq2attn.config.base import Config, Mistake, Mistakes, broken, sound_fields
from seq2attn.config.hints import our_key, suggest, suggest_or_list
from seq2attn.config.source_location import SHOWN, Fault, kind_of
from seq2attn.config.yaml_cursor import Spot, kinds
from seq2attn.config.yaml_reader import plain

EXPECTED = {
    "a whole number": ("int_type", "int_parsing", "int_from_float", "int_parsing_size"),
    "a number": ("float_type", "float_parsing"),
    "true or false": ("bool_type", "bool_parsing"),
    "text": ("string_type",),
    "a path": ("path_type",),
    "a list": ("list_type", "tuple_type", "set_type", "frozen_set_type"),
    "a mapping": ("dict_type", "model_type", "model_attributes_type"),
}


def explain(error: ValidationError, model: type[Config], tree: Node) -> tuple[list[Fault], int]:
    """The mistakes that `error` tells of, and those across the parts of `model` that are valid alone.

    With them the number of those that were not looked into, since there are more than are shown.
    """
    root = Spot(tree, model)
    faults: list[Fault] = []
    wrong: dict[str, tuple[Spot, list[str]]] = {}
    details = _without_emptied(error.errors(include_url=False))
    left = 0
    for number, detail in enumerate(details):
        if len(faults) + len(wrong) >= SHOWN:
            left = len(details) - number
            break
        spot = root.along(detail["loc"])
        if detail["type"] in ("value_error", "assertion_error"):
            faults += _across(spot, detail["ctx"]["error"])
        elif expected := _expected(detail):
            # Each member of a union complains; what is written was meant for one of its own shape.
            if spot.fits:
                wrong.setdefault(spot.name, (spot, []))[1].append(expected)
        elif spot.fits:
            faults.append(_other(spot, detail))
    faults += [_mismatch(spot, expected) for spot, expected in wrong.values()]
    for mistake in broken(model.rules, sound_fields(model, plain(tree), error)):
        faults += _across(root, mistake)
    return faults, left


def _without_emptied(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """The mistakes without those in the length of a list that pydantic emptied for the mistakes in its items."""
    places = {detail["loc"][:depth] for detail in details for depth in range(len(detail["loc"]))}
    return [detail for detail in details if detail["type"] != "too_short" or detail["loc"] not in places]


def placed(mistakes: Sequence[Mistake], model: type[Config], tree: Node) -> list[Fault]:
    """Mistakes that were found in a valid config by whoever used it, at their places."""
    return _across(Spot(tree, model), Mistakes(mistakes))


def _across(spot: Spot, error: Exception) -> list[Fault]:
    """What a validator of ours, or of a part from elsewhere, says about `spot` or about keys below it."""
    if isinstance(error, Mistakes):
        return [fault for mistake in error.mistakes for fault in _across(spot, mistake)]
    message = str(error)
    if isinstance(error, Mistake):
        message = error.message
        for name in error.key.split(".") if error.key else []:
            spot = spot.below(name)
    return [spot.fault(f"`{spot.name}`: {message}" if spot.names else message)]


def _other(spot: Spot, detail: ErrorDetails) -> Fault:
    """Mistakes in keys and kinds, and those for which pydantic's words do."""
    match detail["type"]:
        case "extra_forbidden":
            key = spot.key or spot.node
            ours = our_key(spot.names[-1])
            tip = f"; seq2attn calls it {ours}" if ours else suggest_or_list(spot.names[-1], spot.known)
            message = f"unknown key `{spot.name}`{tip}"
            return Fault(message, key.start_mark, key.end_mark)
        case "missing":
            return spot.fault(f"`{spot.name}` is missing")
        case "union_tag_not_found" if not isinstance(spot.node, MappingNode):
            return _mismatch(spot, ["a mapping"])
        case "union_tag_not_found":
            return spot.fault(f"`{spot.name}` does not say its kind; known: {', '.join(kinds(spot.expects))}")
        case "union_tag_invalid":
            kind, found = spot.below("kind"), kind_of(spot.node)
            if found is None:
                return _mismatch(kind, ["text"])
            elsewhere = "; a part from elsewhere is written `package.module:Class`"
            hint = elsewhere if "." in found else suggest_or_list(found, kinds(spot.expects))
            return kind.fault(f"`{spot.name}` has no kind `{found}`{hint}")
        case _:
            text = detail["msg"].replace(" after validation", "")
            return spot.fault(f"`{spot.name}`: {text[0].lower()}{text[1:]}")


def _expected(detail: ErrorDetails) -> str | None:
    """What a value should have been, if that is what is wrong."""
    for words, errors in EXPECTED.items():
        if detail["type"] in errors:
            return words
    found = re.fullmatch(r"Input should be (.*)", detail["msg"])
    return found[1] if found else None


def _mismatch(spot: Spot, expected: Sequence[str]) -> Fault:
    wanted = " or ".join(dict.fromkeys(expected))
    tip = _tip(spot.node, wanted)
    if isinstance(spot.node, ScalarNode) and spot.node.value.lower() in kinds(spot.expects):
        tip = f"; write `{{kind: {spot.node.value.lower()}}}`"
    return spot.fault(f"`{spot.name}` should be {wanted}, not {_shown(spot.node)}{tip}")


def _shown(node: Node) -> str:
    """A value as the file writes it, as far as it fits into a line."""
    if not isinstance(node, ScalarNode):
        return "a list" if isinstance(node, SequenceNode) else "a mapping"
    return repr(str(plain(node))) if isinstance(plain(node), str) else node.value or "nothing"


def _tip(node: Node, wanted: str) -> str:
    value = plain(node)
    quoted = re.findall(r"'([^']*)'", wanted)
    if isinstance(value, bool | int | float) and (node.value in quoted or "text" in wanted):
        reads = f"YAML reads `{node.value}` as {str(value).lower()}"
        return f"; {reads}: put it in quotes" if str(value).lower() != node.value else "; put it in quotes"
    if isinstance(value, str) and quoted:
        return suggest(value, quoted)
    if (
        wanted == "a whole number"
        and isinstance(value, str)
        and re.fullmatch(r"\d+(\.\d+)?[eE]\+?\d+", value)
    ):
        return f"; write {float(value):.0f}" if float(value).is_integer() else ""
    return ""
