"""Plug-ins: parts of a model by import path, `kind: my_package.my_module:MyEncoder`.

Such a class keeps its typed config beside it, like ours do:

    class MyEncoder(Encoder):
        class Config(seq2attn.Config):
            kind: str
            dim: PositiveInt = 256

            def build(self, embedding_dim: int) -> "MyEncoder": ...

The module is found like any Python module, and after those in the working directory, which is on the import path for
this import only. A run's config, and any config beside a run's files, names only modules that were allowed when it was
loaded: nothing is imported before that is known.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from seq2attn.config.base import Config, FieldError
from seq2attn.config.hints import suggest
from seq2attn.config.trust import check_code


@dataclass(frozen=True)
class Pluggable:
    """Lets a union of our parts take a plug-in: `Annotated[A | B, ..., Pluggable("encoder")]`."""

    noun: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(
            self._validate,
            handler(source),
            serialization=core_schema.simple_ser_schema("any"),  # by the class of the part, not of our union
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        kind = {"type": "string", "pattern": ":", "description": "An import path: package.module:Class"}
        plugin = {
            "title": f"{self.noun} of a plug-in".capitalize(),
            "type": "object",
            "properties": {"kind": kind},
            "required": ["kind"],
            "additionalProperties": True,
        }
        return {"anyOf": [handler(schema), plugin]}

    def _validate(self, value: Any, ours: core_schema.ValidatorFunctionWrapHandler) -> Any:
        kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
        if not isinstance(kind, str) or ":" not in kind:
            return ours(value)
        return import_config_class(kind, self.noun).model_validate(value)


def import_config_class(kind: str, noun: str) -> type[Config]:
    """The `Config` of the class at an import path.

    Raises:
        FieldError: its code was not allowed, there is no such module or class, or its config does not fit in.
    """
    module_name, _, path = kind.partition(":")
    check_code(kind)
    module = _module(module_name, kind)
    found = getattr(module, path, None)
    if not isinstance(found, type):
        hint = suggest(path, [name for name, value in vars(module).items() if isinstance(value, type)])
        raise FieldError("kind", f"the module `{module_name}` has no class `{path}`{hint}")
    config = getattr(found, "Config", None)
    if config is None:
        raise FieldError("kind", f"`{path}` has no `Config` beside it, so it cannot be used as {_a(noun)}")
    if not (isinstance(config, type) and issubclass(config, Config)):
        raise FieldError("kind", f"`{path}.Config` should be a subclass of `seq2attn.Config`")
    if "kind" not in config.model_fields:
        raise FieldError("kind", f"`{path}.Config` should have a field `kind: str`")
    if not callable(getattr(config, "build", None)):
        raise FieldError("kind", f"`{path}.Config` should have a method `build` that makes the {noun}")
    return config


def plugin_modules(config: Config) -> tuple[str, ...]:
    """The modules of the plug-ins in a config."""
    values, found = list[Any]([config.model_dump(mode="json")]), list[str]()
    while values:
        value = values.pop()
        if isinstance(value, dict):
            kind = value.get("kind")
            found += [kind.partition(":")[0]] if isinstance(kind, str) and ":" in kind else []
        values += value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return tuple(sorted({*found}))


def _module(name: str, kind: str) -> ModuleType:
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        raise FieldError("kind", f"`{kind}` is not an import path; expected `package.module:Class`")
    try:
        with _working_directory_importable():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # a module that theirs needs: their traceback says most
        raise FieldError("kind", f"there is no module `{error.name}` to import `{kind}` from") from None
    except (ValueError, AssertionError) as error:
        # Pydantic would take these for a mistake in the config, and drop the traceback.
        raise RuntimeError(f"importing {name} failed") from error


@contextmanager
def _working_directory_importable() -> Iterator[None]:
    """The working directory as the last place to import from: it hides no module that is installed."""
    folder = str(Path.cwd())
    if folder in sys.path:
        yield
        return
    sys.path.append(folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
