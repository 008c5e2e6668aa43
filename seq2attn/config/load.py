"""Configs from and to YAML: a file, the files it extends and the command line, merged with the place of each value."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError
from yaml import MappingNode

from seq2attn.config.base import CHECK_FILES, Config, FieldError
from seq2attn.config.explain import explain, locate
from seq2attn.config.overrides import override
from seq2attn.config.source_location import Diagnostic, format_diagnostics
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
