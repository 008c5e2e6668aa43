"""Base class of configs: unknown keys are errors, values are frozen, docstrings are the help."""

from __future__ import annotations

import inspect
import os.path
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    create_model,
    model_validator,
)

from seq2attn.config.hints import suggest


@dataclass
class ValidationContext:
    """Context of a validation of YAML."""

    check_files: bool = False  # an input file that does not exist is an error
    models: dict[int, type[Config]] = field(default_factory=dict)  # the class of each mapping, by its id


class PathString(str):
    """A YAML string with the folder of its file."""

    folder: Path


def _resolve_path(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, str | Path):
        return value
    folder = value.folder if isinstance(value, PathString) else Path.cwd()
    try:
        path = Path(os.path.abspath(folder / Path(value).expanduser()))  # noqa: PTH100  # keeps links
        resolved = path.resolve()
    except RuntimeError as error:  # an unknown user after `~`, links in a circle
        raise ValueError(f"is not a valid path: {error}") from None
    if isinstance(info.context, ValidationContext) and info.context.check_files and not path.exists():
        known = [file.name for file in resolved.parent.iterdir()] if resolved.parent.is_dir() else []
        raise ValueError(f"there is no such file: {resolved}{suggest(resolved.name, known)}")
    # A pipe, such as /dev/fd/63 of `<(...)`, resolves to a name that no file has.
    return resolved if resolved.exists() or not path.exists() else path


InputPath = Annotated[Path, BeforeValidator(_resolve_path)]
"""A path to an input, relative to its YAML file, or else to the working directory."""


def to_list(value: Any) -> Any:
    """A single value as a list of one; for fields that accept a value in the place of a list."""
    return value if type(value) in (list, tuple) else [value]  # a duration is a tuple of another type


class FieldError(ValueError):
    """An error in a field, for rules across fields. `field`: its dotted key, relative to the config that raises it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field, self.message = field, message


class FieldErrors(ValueError):  # noqa: N818
    """Several errors across fields, for a pydantic `model_validator` to raise."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("; ".join(str(error) for error in errors))
        self.errors = list(errors)


Rule: TypeAlias = Callable[..., Sequence[FieldError]]
"""A check across fields of a config. Its parameters have the names of the fields that it needs."""


class Config(BaseModel):
    """A frozen, typed section of a YAML file. The docstring below a field is its help."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    rules: ClassVar[Sequence[Rule]] = ()
    """Checks across fields. The root config runs each rule whose fields are valid."""

    @model_validator(mode="before")
    @classmethod
    def _record_class(cls, data: Any, info: ValidationInfo) -> Any:
        if isinstance(info.context, ValidationContext):
            info.context.models[id(data)] = cls
        return data

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        if errors := check_rules(self.rules, dict(self)):
            raise FieldErrors(errors)
        return self


def check_rules(rules: Sequence[Rule], fields: Mapping[str, Any]) -> list[FieldError]:
    """Errors of all rules whose fields are in `fields`."""
    errors: list[FieldError] = []
    for rule in rules:
        names = inspect.signature(rule).parameters
        if all(name in fields for name in names):
            errors += rule(*(fields[name] for name in names))
    return errors


def valid_fields(model: type[Config], data: Any, error: ValidationError) -> dict[str, Any]:
    """Validated fields of `data` without errors; none if `error` is about the whole."""
    invalid = {detail["loc"][0] for detail in error.errors() if detail["loc"]}
    if not invalid or not isinstance(data, Mapping):
        return {}
    valid = {name: field for name, field in model.model_fields.items() if name not in invalid}
    part: Any = create_model(model.__name__, __base__=Config, **{n: (f.annotation, f) for n, f in valid.items()})  # type: ignore[call-overload]
    values = {name: data[name] for name in valid if name in data}
    return dict(part.model_validate(values))
