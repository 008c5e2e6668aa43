"""Configs from and to YAML: a file, those it extends and the command line, merged with the place of each value."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml
from pydantic import ValidationError
from yaml import MappingNode, Node

from seq2attn.config.base import CHECK_FILES, Config, FieldError
from seq2attn.config.explain import explain, locate
from seq2attn.config.source_location import Diagnostic, child, format_diagnostics, kind_of
from seq2attn.config.yaml_cursor import YAMLCursor
from seq2attn.config.yaml_reader import YAMLReader, merge, to_python
from seq2attn.errors import ConfigError

C = TypeVar("C", bound=Config)


def load(path: Path, model: type[C], overrides: Sequence[str] = (), *, check_files: bool = False) -> C:
    """Load the config at `path`, merged with the files it `extends` and with `overrides` such as `search.beam_size=10`.

    Raises:
        ConfigError: all mistakes at once, each with its place; with `check_files` also input files that do not exist.
    """
    return load_with_locations(path, model, overrides, check_files=check_files)[0]


def load_with_locations(
    path: Path, model: type[C], overrides: Sequence[str] = (), *, check_files: bool = False
) -> tuple[C, MappingNode]:
    """`load`, and the merged YAML with the place of each value."""
    tree, diagnostics, dropped = read_merged(path, model, overrides)
    for message in dropped:
        print(message, file=sys.stderr)
    config, num_omitted = None, 0
    places = {diagnostic.sort_key for diagnostic in diagnostics}  # of values that are not valid YAML
    # A missing file hides mistakes across fields, so files are checked in a validation of their own.
    for context in (None, CHECK_FILES) if check_files else (None,):
        try:
            config = model.model_validate(to_python(tree), context=context)
        except ValidationError as error:
            explained, num_omitted = explain(error, model, tree)
            diagnostics += [diagnostic for diagnostic in explained if diagnostic.sort_key not in places]
    if diagnostics or config is None:
        raise format_diagnostics(path, diagnostics, num_omitted)
    return config, tree


def errors_at(
    path: Path,
    model: type[Config],
    errors: Sequence[FieldError],
    overrides: Sequence[str] = (),
) -> ConfigError:
    """A ConfigError for errors in a valid config, such as missing files, each with its place."""
    return format_diagnostics(path, locate(errors, model, read_merged(path, model, overrides)[0]))


def read_merged(
    path: Path, model: type[Config], overrides: Sequence[str] = ()
) -> tuple[MappingNode, list[Diagnostic], list[str]]:
    """Merged YAML with all overrides, its diagnostics, and messages about keys that a changed kind dropped."""
    reader = YAMLReader(path)
    tree = reader.read_file(path)
    if not overrides:
        return tree, reader.diagnostics, []
    # Merged with each other first, so that their order on the command line does not matter.
    changes = reduce(merge, map(reader.parse_override, overrides))
    merged, dropped = override(tree, changes, model)
    return merged, reader.diagnostics, dropped


def dump(config: Config) -> str:
    """All of `config`, defaults included, as YAML that `load` reads back to the same config."""
    data = _kinds_first(config.model_dump(mode="json"))
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=float("inf"))


def _kinds_first(data: Any) -> Any:
    """`data` with each `kind` at the head of its mapping, also where the fields before it are inherited."""
    if isinstance(data, dict):
        head = {"kind": data["kind"]} if "kind" in data else {}
        return {key: _kinds_first(value) for key, value in (head | data).items()}
    return [_kinds_first(item) for item in data] if isinstance(data, list) else data


_EXTENDS = {
    "description": "The file, or list of files, that this one overrides; paths are relative to it.",
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
}


def json_schema(model: type[Config]) -> dict[str, Any]:
    """JSON Schema of a config file. No key is required, since an extended file may have it."""
    schema = _open(model.model_json_schema())
    for part in (schema, *schema.get("$defs", {}).values()):
        part.pop("required", None)
    properties = {"extends": _EXTENDS, **schema.pop("properties", {})}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "properties": properties}


def _open(schema: Any) -> Any:
    """`schema` with `anyOf` for `oneOf`: without `kind`, which an extended file may have, several kinds match."""
    if isinstance(schema, list):
        return [_open(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "oneOf" in schema:
        schema = {"anyOf": schema["oneOf"], **schema}
        del schema["oneOf"]
        schema.pop("discriminator", None)
    return {key: _open(value) for key, value in schema.items()}


Names = tuple[str, ...]


def override(tree: MappingNode, changes: MappingNode, model: type[Config]) -> tuple[MappingNode, list[str]]:
    """`changes` merged into `tree`, and a message for each component whose keys were dropped with its kind.

    A component whose kind changes keeps the keys that the new kind has too.
    """
    merged, messages = merge(tree, changes), list[str]()
    for names in _changed_kinds(tree, changes):
        part: YAMLCursor = reduce(YAMLCursor.child, names, YAMLCursor(merged, model))
        known = part.keys()
        if known is None:
            continue
        node = reduce(lambda node, name: child(node, name)[1] or node, names, cast(Node, changes))
        kept = {*known, *(key.value for key, _ in node.value)}
        dropped = [key.value for key, _ in part.node.value if key.value not in kept]
        part.node.value = [(key, value) for key, value in part.node.value if key.value in kept]
        if dropped:
            keys = ", ".join(f"`{'.'.join((*names, key))}`" for key in dropped)
            messages.append(f"`{'.'.join(names)}` of kind `{kind_of(part.node)}` has no {keys}: dropped")
    return merged, messages


def _changed_kinds(tree: Node, changes: Node, names: Names = ()) -> Iterator[Names]:
    """The components whose kind differs, outer ones first."""
    if not (isinstance(tree, MappingNode) and isinstance(changes, MappingNode)):
        return
    before, after = kind_of(tree), kind_of(changes)
    if before and after and before != after:
        yield names
    for key, value in changes.value:
        inner = child(tree, key.value)[1]
        if inner is not None:
            yield from _changed_kinds(inner, value, (*names, key.value))
