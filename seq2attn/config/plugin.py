"""Plug-ins: components by import path, `kind: my_package.my_module:MyEncoder`. See docs/extending.md.

The working directory is on the import path for this import only, and last. The config of a run, or any config beside
the files of a run, may name only allowed modules: nothing is imported before that is checked.
"""

import importlib
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from seq2attn.config.base import Config, FieldError, PathString
from seq2attn.config.hints import suggest

RUN_FILES = ("run.json", "model.safetensors", "checkpoints", "trial.json")
"""Files by which a run directory is recognized."""
_allowed = set[str]()


def allow_code(modules: str | Iterable[str]) -> None:
    """Allow modules and their submodules (`my_package` or `my_package.my_module`) for the rest of the process."""
    modules = [modules] if isinstance(modules, str) else modules
    _allowed.update(module.partition(":")[0] for module in modules)


def check_code(kind: str) -> None:
    """Check of an import path such as `my_package.my_module:Class`, to be made before the import.

    Raises FieldError if a config of a run names a module that is not allowed.
    """
    module = kind.partition(":")[0]
    is_allowed = any(module == name or module.startswith(f"{name}.") for name in _allowed if name)
    if not is_allowed and is_of_run(kind):
        raise FieldError(
            "kind",
            f"would run code of the module `{module}`, with all your permissions; if you trust it, allow it by"
            f" ``allow_code={module}``",
        )


def is_of_run(value: str) -> bool:
    """True for a value from a YAML file beside the files of a run, which may be untrusted."""
    return isinstance(value, PathString) and is_run(value.folder)


def fill_in(data: Any, field: str, read: Callable[[dict[str, Any]], Any]) -> Any:
    """The fields of a config with one that `read` makes of its files, of which `path` is one, unless it is given.

    Raises FieldError for the config of a run, whose files are not read.
    """
    if not isinstance(data, dict) or data.get(field) or not isinstance(data.get("path"), str | Path):
        return data
    if is_of_run(data["path"]):
        raise FieldError(field, "is missing from the config of a run, and the files that it is made of are not read")
    return {**data, field: read(data)}


def is_run(folder: Path) -> bool:
    """True for a folder with files of a run."""
    return any((folder / name).exists() for name in RUN_FILES)


@dataclass(frozen=True)
class Pluggable:
    """Mark of a union that may be a plug-in: `Annotated[A | B, ..., Pluggable("encoder")]`."""

    noun: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_wrap_validator_function(
            self._validate,
            handler(source),
            serialization=core_schema.simple_ser_schema("any"),  # by its class, which is not in the union
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

    def _validate(
        self, value: Any, validate_union: core_schema.ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
        if not isinstance(kind, str) or ":" not in kind:
            return validate_union(value)
        return import_config_class(kind, self.noun).model_validate(value, context=info.context)


def import_config_class(kind: str, noun: str) -> type[Config]:
    """The `Config` of the class at an import path.

    Raises FieldError if the module is not allowed, there is no such module or class, or its `Config` is not valid.
    """
    module_name, _, path = kind.partition(":")
    check_code(kind)
    module = _module(module_name, kind)
    cls = getattr(module, path, None)
    if not isinstance(cls, type):
        hint = suggest(path, [name for name, value in vars(module).items() if isinstance(value, type)])
        raise FieldError("kind", f"the module `{module_name}` has no class `{path}`{hint}")
    config = getattr(cls, "Config", None)
    if config is None:
        raise FieldError("kind", f"`{path}` has no `Config`, which a plug-in needs")
    if not (isinstance(config, type) and issubclass(config, Config)):
        raise FieldError("kind", f"`{path}.Config` should be a subclass of `seq2attn.Config`")
    if "kind" not in config.model_fields:
        raise FieldError("kind", f"`{path}.Config` should have a field `kind: str`")
    if not callable(getattr(config, "build", None)):
        raise FieldError("kind", f"`{path}.Config` should have a method `build` that makes the {noun}")
    return config


def is_plugin(component: Config) -> bool:
    """True for a component by import path, which has no more than a `kind` and `build`, and checks its own widths."""
    return ":" in str(dict(component).get("kind"))


def plugin_modules(config: Config) -> tuple[str, ...]:
    """The modules of the plug-ins in a config."""
    return tuple(sorted({*re.findall(r'"kind":"([^":]+):', config.model_dump_json())}))


def _module(name: str, kind: str) -> ModuleType:
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        raise FieldError("kind", f"`{kind}` is not an import path; expected `package.module:Class`")
    search_path = sys.path[:]
    sys.path.append(str(Path.cwd()))  # last, where it hides no installed module
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # a dependency of the plug-in: the traceback is needed
        where = "the working directory or PYTHONPATH"
        raise FieldError("kind", f"there is no module `{error.name}` in {where} to import `{kind}` from") from None
    except (ValueError, AssertionError) as error:
        # Pydantic would report these as errors in the config, without a traceback.
        raise RuntimeError(f"importing {name} failed") from error
    finally:
        sys.path[:] = search_path
