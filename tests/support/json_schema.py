"""A check of data against the keywords of JSON Schema (2020-12) that our schemas use."""

from collections.abc import Iterator, Mapping
from typing import Any

TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int,
    "number": (int, float),
}  # fmt: skip
NOTES = {"$schema", "title", "description", "$defs"}
KEYWORDS = {
    "$ref", "type", "enum", "anyOf", "minimum", "properties", "required", "additionalProperties", "items",
    "prefixItems", "minItems", "maxItems",
}  # fmt: skip


def breaches(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], place: str = "data") -> Iterator[str]:
    """What a value has that its schema does not allow. Raises KeyError for a keyword that is not known here."""
    if unknown := {*schema} - NOTES - KEYWORDS:
        raise KeyError(f"{place}: {unknown}")
    if "$ref" in schema:
        yield from breaches(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, place)
    if "anyOf" in schema and all([*breaches(value, one, root, place)] for one in schema["anyOf"]):
        yield f"{place}: {value!r} is none of {schema['anyOf']}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: {value!r} is none of {schema['enum']}"
    names = schema.get("type", [*TYPES])
    if not any(_is(value, name) for name in ([names] if isinstance(names, str) else names)):
        yield f"{place}: {value!r} is not {names}"
    elif isinstance(value, int | float) and value < schema.get("minimum", value):
        yield f"{place}: {value} is too small"
    elif isinstance(value, dict):
        yield from _object_breaches(value, schema, root, place)
    elif isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{place}: has {len(value)} items"
        first = schema.get("prefixItems", [])
        for number, one in enumerate(value):
            item = first[number] if number < len(first) else schema.get("items", {})
            yield from breaches(one, item, root, f"{place}[{number}]")


def _is(value: Any, name: str) -> bool:
    """Whether a value has a type; true and false are no numbers."""
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def _object_breaches(
    value: dict[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any], place: str
) -> Iterator[str]:
    yield from (f"{place}: has no {name}" for name in schema.get("required", ()) if name not in value)
    known, other = schema.get("properties", {}), schema.get("additionalProperties", {})
    for name, one in value.items():
        if name not in known and other is False:
            yield f"{place}: has {name}"
        else:
            yield from breaches(one, known.get(name, other), root, f"{place}.{name}")
