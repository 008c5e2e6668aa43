"""Configs from and to YAML: a file, those it extends and the command line, merged with the place of each value."""

import sys
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from seq2attn.config.base import Config, FieldError, FieldErrors, PathString
from seq2attn.config.explain import diagnose, validate
from seq2attn.config.merge import merge
from seq2attn.config.yaml_reader import YAMLReader
from seq2attn.config.yaml_tree import Diagnostic, YAMLValue, format_diagnostics
from seq2attn.errors import ConfigError, UserError

C = TypeVar("C", bound=Config)


def load(path: Path, model: type[C], overrides: Sequence[str] = (), *, check_files: bool = False) -> C:
    """Load the config at `path`, merged with the files it `extends` and with `overrides` such as `search.beam_size=10`.

    Raises ConfigError with all mistakes, each with its place; with `check_files` also input files that do not exist.
    """
    return load_with_locations(path, model, overrides, check_files=check_files)[0]


def load_with_locations(
    path: Path, model: type[C], overrides: Sequence[str] = (), *, check_files: bool = False
) -> tuple[C, YAMLValue]:
    """`load`, and the merged YAML with the place of each value."""
    tree, diagnostics, dropped = read_merged(path, model, overrides)
    if command := _command_of_other_config(tree.data, model):
        raise ConfigError(f"{path}: is a config for `seq2attn {command}`")
    for message in dropped:
        print(message, file=sys.stderr)
    places = {diagnostic.sort_key for diagnostic in diagnostics}  # of values that are not valid YAML
    # A missing file hides mistakes across fields, so files are checked in a validation of their own.
    for check in (False, True) if check_files else (False,):
        config, explained, num_omitted = validate(model, tree, check_files=check)
        diagnostics += [diagnostic for diagnostic in explained if diagnostic.sort_key not in places]
    if diagnostics or config is None:
        raise format_diagnostics(path, diagnostics, num_omitted)
    return config, tree


_COMMANDS = {"published": "reproduce", "axes": "sweep", "model": "train"}
"""The commands whose configs have these keys, the most special one first."""


def _command_of_other_config(data: dict[str, Any], model: type[Config]) -> str | None:
    """The command that a config without any key of `model` is for; None if it is not known."""
    if data.keys() & model.model_fields.keys():
        return None
    return next((command for key, command in _COMMANDS.items() if key in data), None)


def errors_at(
    path: Path, model: type[Config], errors: Sequence[FieldError], overrides: Sequence[str] = ()
) -> ConfigError:
    """A ConfigError for errors in a valid config, such as missing files, each with its place."""
    return format_diagnostics(path, diagnose(FieldErrors(errors), read_merged(path, model, overrides)[0]))


def read_merged(
    path: Path, model: type[Config], overrides: Sequence[str] = ()
) -> tuple[YAMLValue, list[Diagnostic], list[str]]:
    """Merged YAML with all overrides, its diagnostics, and messages about keys that a changed kind dropped."""
    reader = YAMLReader(path, model)
    tree = reader.read_file(path)
    if not overrides:
        return tree, reader.diagnostics, []
    # Merged with each other first, so that their order on the command line does not matter.
    changes = reduce(partial(merge, model=model), map(reader.parse_override, overrides))
    dropped = list[str]()
    return merge(tree, changes, model, dropped), reader.diagnostics, dropped


def check_options(overrides: Sequence[str], options: Mapping[str, tuple[str, Any]]) -> None:
    """Raises UserError for an override of a key that an option sets too, or of a value above it that is no mapping.

    `options` has the name and the value of each option by its key; None if it is not given.
    """
    for override, (key, (name, value)) in product(overrides, options.items()):
        names = tuple(key.split("."))
        found, inner = YAMLReader(Path()).parse_override(override).find(names)
        if value is not None and (found == names or not isinstance(inner.content, dict)):
            raise UserError(f"``overrides={override}``: has no effect with ``{name}``")


def with_options(overrides: Sequence[str], options: Mapping[str, tuple[str, Any]]) -> list[str]:
    """The overrides, and those of options; for `options` and errors see `check_options`."""
    check_options(overrides, options)
    layout: dict[str, Any] = {"default_flow_style": True, "allow_unicode": True, "width": float("inf")}
    given = {key: [value] for key, (_, value) in options.items() if value is not None}  # YAML ends a scalar by `...`
    return [*overrides, *(f"{key}={yaml.safe_dump(value, **layout)[1:-2]}" for key, value in given.items())]


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


def load_json(content: Any, path: Path, model: type[C]) -> C:
    """The config that a file of a run has as JSON; like `config.yaml` of a run, it imports no code but allowed modules.

    Raises ConfigError with the first mistake.
    """
    try:
        return model.model_validate(PathString.of(content, path.parent))
    except RecursionError:
        raise ConfigError(f"{path}: is nested too deep") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"{path}: `{'.'.join(map(str, first['loc']))}`: {first['msg']}") from None
