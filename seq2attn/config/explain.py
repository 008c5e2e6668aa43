"""Validation of a config, with pydantic's errors as messages about keys of the file, with their places."""

import difflib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from seq2attn.config.base import CHECK_FILES, Config, FieldError, FieldErrors, check_rules, valid_fields
from seq2attn.config.hints import OUR_KEYS, look_alike, suggest, suggest_or_list
from seq2attn.config.kinds import key_type
from seq2attn.config.yaml_tree import MAX_SHOWN, Diagnostic, Names, YAMLValue

C = TypeVar("C", bound=Config)
TYPE_NAMES = {
    "a whole number": ("int_type", "int_parsing", "int_from_float", "int_parsing_size"),
    "a number": ("float_type", "float_parsing"),
    "true or false": ("bool_type", "bool_parsing"),
    "text": ("string_type",),
    "a path": ("path_type",),
    "a list": ("list_type", "tuple_type", "set_type", "frozen_set_type"),
    "a mapping": ("dict_type", "model_type", "model_attributes_type"),
}


class PlacedError(NamedTuple):
    """An error of pydantic, and the names of the value that it is about, which may be missing."""

    names: Names
    detail: ErrorDetails
    is_member: bool = False  # it is of one of the types that the value may have


def validate(model: type[C], tree: YAMLValue, *, check_files: bool = False) -> tuple[C | None, list[Diagnostic], int]:
    """The config; or None, diagnostics of its errors and of rules across valid parts, and the number of further errors.

    Only as many errors are explained as are shown.
    """
    try:
        return model.model_validate(tree.data, context=CHECK_FILES if check_files else None), [], 0
    except ValidationError as error:
        errors, diagnostics, mismatches = place_errors(error, tree), list[Diagnostic](), dict[Names, list[str]]()
        for placed in errors[:MAX_SHOWN]:
            if placed.detail["type"] in ("value_error", "assertion_error"):
                diagnostics += diagnose(placed.detail["ctx"]["error"], tree, placed.names)
            elif expected := _expected(placed, tree):
                mismatches.setdefault(placed.names, []).append(expected)
            else:
                diagnostics.append(_other_diagnostic(placed, model, tree))
        diagnostics += [_mismatch_diagnostic(names, expected, model, tree) for names, expected in mismatches.items()]
        diagnostics += diagnose(FieldErrors([*check_rules(model.rules, valid_fields(model, tree.data))]), tree)
        return None, diagnostics, len(errors[MAX_SHOWN:])


def place_errors(error: ValidationError, tree: YAMLValue) -> list[PlacedError]:
    """The errors with their places, without those that follow from others.

    Each type that a value may have reports errors: those about items of a list are the relevant ones. Pydantic also
    calls a list too short that it emptied because of errors in its items.
    """
    details = error.errors(include_url=False)
    above = {detail["loc"][:depth] for detail in details for depth in range(len(detail["loc"]))}
    kept = [detail for detail in details if detail["type"] != "too_short" or detail["loc"] not in above]
    placed = [_place(detail, tree) for detail in kept]
    with_items = {names[:depth] for names, *_ in placed for depth in range(len(names))}
    return [error for error in placed if not (error.is_member and error.names in with_items)]


def _place(detail: ErrorDetails, tree: YAMLValue) -> PlacedError:
    """The place at pydantic's `loc`, which names members of unions, too: by their `kind` or by their type."""
    loc = [str(part) for part in detail["loc"] if part != "[key]"]
    missing = [loc.pop()] if detail["type"] == "missing" else []
    value = tree
    names = list[str]()
    tagged: YAMLValue | None = None
    is_member = False
    for part in loc:
        if value is not tagged and value.kind == part:
            tagged = value
        elif inner := value.child(part):
            value = inner
            is_member = False
            names.append(part)
        elif part != "0":  # a single value in the place of a list
            is_member = True
    return PlacedError((*names, *missing), detail, is_member)


def diagnose(error: Exception, tree: YAMLValue, names: Names = ()) -> list[Diagnostic]:
    """Diagnostics for an error across fields at `names` or below it."""
    if isinstance(error, FieldErrors):
        return [diagnostic for field_error in error.errors for diagnostic in diagnose(field_error, tree, names)]
    message = str(error)
    if isinstance(error, FieldError):
        message = error.message
        for name in error.field.split(".") if error.field else []:
            existing, value = tree.find(names)
            is_single = name == "0" and existing == names and not isinstance(value.content, list)
            names = names if is_single else (*names, name)
    return [tree.diagnostic(names, f"`{'.'.join(names)}`: {message}" if names else message)]


def _other_diagnostic(placed: PlacedError, model: type[Config], tree: YAMLValue) -> Diagnostic:
    """Diagnostic of an unknown or missing key, a wrong kind, or any other error with pydantic's message."""
    names, detail, key = placed.names, placed.detail, ".".join(placed.names)
    match detail["type"]:
        case "extra_forbidden":
            section = key_type(model, tree, names[:-1])
            hint = _hint_of_key(names, section.config_class(tree.find(names[:-1])[1]))
            if kinds := [kind for kind, config in section.kinds.items() if names[-1] in config.model_fields]:
                hint = f"; the kind `{'`, `'.join(kinds)}` has it{hint}"
            return tree.diagnostic(names, f"unknown key `{key}`{hint}", at_key=True)
        case "missing":
            return tree.diagnostic(names, f"`{key}` is missing")
        case "union_tag_not_found":
            return tree.diagnostic(names, f"`{key}` has no `kind`; known: {', '.join(_kinds(names, model, tree))}")
        case "union_tag_invalid":
            kind = detail["ctx"]["tag"]
            plugin_hint = "; a plug-in is written `package.module:Class`"
            hint = plugin_hint if "." in kind else suggest_or_list(kind, _kinds(names, model, tree))
            return tree.diagnostic((*names, "kind"), f"`{key}` has no kind `{kind}`{hint}")
        case "too_short" if detail["ctx"]["min_length"] == 1:
            return tree.diagnostic(names, f"`{key}` is empty; give at least one")
        case _:
            text = detail["msg"].replace(" after validation", "")
            message = f"`{key}`: {text[0].lower()}{text[1:]}"
            return tree.diagnostic(names, message, at_key=detail["loc"][-1:] == ("[key]",))


def _hint_of_key(names: Names, owner: type[Config] | None) -> str:
    """A hint at the key that is meant by an unknown one: of a part of its section, of seq2attn, or a similar one."""
    name, fields = names[-1], owner.model_fields if owner else {}
    for part, field in fields.items():
        if name in getattr(field.annotation, "model_fields", ()):
            return f"; did you mean `{part}.{name}`?"
    ours = OUR_KEYS.get(name.lower().replace("-", "_"), "")
    section = ".".join(names[:-1])
    is_of_another_kind = f"`{section}.{name}`" in ours or (ours.startswith(f"`{name}` of") and f"`{section}`" in ours)
    is_here = not section and (ours == "`kind`" or ours.startswith(f"`{name}`"))  # no place for it, or its own
    if ours and not is_of_another_kind and not is_here:
        return f"; seq2attn calls it {ours}"
    return look_alike(name) or suggest_or_list(name, fields)


def _kinds(names: Names, model: type[Config], tree: YAMLValue) -> list[str]:
    return list(key_type(model, tree, names).kinds)


def _expected(placed: PlacedError, tree: YAMLValue) -> str | None:
    """Description of the expected value; None for errors that are not about the value."""
    is_mapping = isinstance(tree.find(placed.names)[1].content, dict)
    if placed.detail["type"] == "union_tag_not_found":
        return None if is_mapping else "a mapping"
    for name, errors in TYPE_NAMES.items():
        if placed.detail["type"] in errors:
            return name
    match = re.fullmatch(r"Input should be (.*)", placed.detail["msg"])
    return match[1] if match else None


def _mismatch_diagnostic(names: Names, alternatives: Sequence[str], model: type[Config], tree: YAMLValue) -> Diagnostic:
    value = tree.find(names)[1]
    content, text = value.content, value.node.value
    expected = " or ".join(dict.fromkeys(alternatives))
    hint = _hint(content, text, expected)
    if isinstance(content, str) and expected == "a mapping":
        for kind in difflib.get_close_matches(content.lower(), _kinds(names, model, tree), n=1):
            of_named = f"; `{'.'.join(names[:-1])}` has names: write `{{NAME: {{kind: {kind}, ...}}}}`"
            hint = of_named if names[-1] == "kind" else f"; write `{{kind: {kind}}}`"
    actual = repr(str(content)) if isinstance(content, str) else text or "nothing"
    actual = "a mapping" if isinstance(content, dict) else "a list" if isinstance(content, list) else actual
    return tree.diagnostic(names, f"`{'.'.join(names)}` should be {expected}, not {actual}{hint}")


def _hint(value: Any, text: str, expected: str) -> str:
    """A hint at the fix of a value that is `text` in the file."""
    quoted = re.findall(r"'([^']*)'", expected)
    if isinstance(value, bool | int | float) and (text in quoted or "text" in expected):
        reads = f"YAML reads `{text}` as {str(value).lower()}"
        return f"; {reads}: put it in quotes" if str(value).lower() != text else "; put it in quotes"
    if isinstance(value, str) and quoted:
        return suggest(value, quoted)
    if expected == "a whole number" and isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?[eE]\+?\d+", value):
        return f"; write {float(value):.0f}" if float(value).is_integer() else ""
    return ""
