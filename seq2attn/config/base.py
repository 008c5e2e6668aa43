"""Base class of configs: unknown keys are errors, values are frozen, docstrings are the help."""

from __future__ import annotations

import inspect
import os.path
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, ClassVar, Self, TypeAlias, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.fields import FieldInfo

from seq2attn.config.hints import suggest_file
from seq2attn.errors import UserError


class PathString(str):
    """Text of a config with the folder of its file."""

    folder: Path

    @classmethod
    def of(cls, value: Any, folder: Path) -> Any:
        """`value` with all text in it, but keys, as PathStrings of `folder`."""
        if isinstance(value, dict):
            return {key: cls.of(part, folder) for key, part in value.items()}
        if isinstance(value, list):
            return [cls.of(item, folder) for item in value]
        if isinstance(value, str):
            value = cls(value)
            value.folder = folder
        return value


CHECK_FILES = "check files"
"""Context of a validation in which an input file that does not exist is an error."""


def _validate_path(value: Any, info: ValidationInfo) -> Any:
    is_path = isinstance(value, str | Path)
    return _resolve_path(value, check_files=info.context is CHECK_FILES) if is_path else value


def _resolve_path(value: str | Path, *, check_files: bool = False) -> Path:
    folder = value.folder if isinstance(value, PathString) else Path.cwd()
    path = Path(os.path.abspath(folder / _expand_user(value)))  # noqa: PTH100  # keeps links
    try:
        resolved = path.resolve()
        if check_files and not path.exists():
            names = [file.name for file in resolved.parent.iterdir()] if resolved.parent.is_dir() else []
            raise ValueError(f"there is no such file: {resolved}{suggest_file(resolved.name, names)}")
        # A pipe, such as /dev/fd/63 of `<(...)`, resolves to a name that no file has.
        return resolved if resolved.exists() or not path.exists() else path
    except RuntimeError as error:  # links in a circle
        raise ValueError(f"is not a valid path: {error}") from None
    except OSError as error:  # a run translates where its text may not be read
        if check_files:
            raise ValueError(f"cannot be read: {path} ({error.strerror})") from None
        return path


def _expand_user(value: str | Path) -> Path:
    try:
        return Path(value).expanduser()
    except RuntimeError as error:  # an unknown user after `~`
        raise ValueError(f"is not a valid path: {error}") from None


def run_path(value: Any) -> Any:
    """The path of a run directory in a config. Raises ValueError for an empty one and for an unknown user after `~`."""
    if value == "":
        raise ValueError("is empty; give a folder, for example runs/my-run")
    return _expand_user(value) if isinstance(value, str | Path) else value


InputPath = Annotated[Path, BeforeValidator(_validate_path)]
"""A path to an input, relative to its YAML file, or else to the working directory."""
RunPath = Annotated[Path, BeforeValidator(run_path)]
"""A path to a run directory, relative to the working directory."""


NumLayers = Annotated[int, Field(gt=0, le=1000, description="Number of layers.")]
"""Number of layers; the model of a corrupt number would be built for hours."""


def input_path(key: str, path: str | Path) -> Path:
    """The path of an input at a key of a config, before the other fields are validated. Raises FieldError."""
    try:
        return _resolve_path(path)
    except ValueError as error:
        raise FieldError(key, str(error)) from None


def to_list(value: Any) -> Any:
    """A single value as a list of one; for fields that accept a value in the place of a list."""
    return value if type(value) in (list, tuple) else [value]  # a duration is a tuple of another type


class FieldError(UserError, ValueError):
    """An error across fields. `field`: the dotted key of its place, relative to the config that finds it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"`{field}`: {message}")
        self.field = field
        self.message = message

    def within(self, section: str) -> FieldError:
        """The error relative to the config that has this one as a section."""
        return FieldError(f"{section}.{self.field}", self.message)


class FieldErrors(ValueError):  # noqa: N818
    """Several errors across fields."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("; ".join(f"{error.field}: {error.message}" for error in errors))
        self.errors = list(errors)


Rule: TypeAlias = Callable[..., Iterable[FieldError]]
"""A check across sections of a config. Its parameters have the names of the sections that it needs."""


class Config(BaseModel):
    """A frozen, typed section of a YAML file. The docstring below a field is its help."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)

    rules: ClassVar[Sequence[Rule]] = ()
    """Checks across sections. The root config runs each rule whose sections are valid."""

    @model_validator(mode="before")
    @classmethod
    def _check_input(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        fields = cls.model_fields
        return {name: complete(fields[name], value) if name in fields else value for name, value in data.items()}

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        if errors := [*check_rules(self.rules, dict(self)), *self.check_fields()]:
            raise FieldErrors(errors)
        return self

    def check_fields(self) -> Iterable[FieldError]:
        """Errors across fields, each of which is valid."""
        return ()

    def with_value(self, key: str, value: Any) -> Self:
        """The config with another valid value at a dotted key."""
        name, _, rest = key.partition(".")
        return self.model_copy(update={name: dict(self)[name].with_value(rest, value) if rest else value})


def complete(field: FieldInfo, value: Any) -> Any:
    """A value in YAML with the kind of the default if it has none; as text if it is a boolean in place of a number."""
    types = {*members(field.annotation)}
    if isinstance(value, bool) and types & {int, float} and not types & {bool, str}:
        return str(value)  # pydantic takes true for 1, but refuses its text
    if isinstance(value, Mapping) and "kind" not in value and (kind := default_kind(field)):
        return {"kind": kind, **value}
    return value


def default_kind(field: FieldInfo) -> str | None:
    """The kind of the default of a component; None without one."""
    default = dict(field.default) if isinstance(field.default, Config) else {}
    return default.get("kind")


def members(annotation: Any) -> list[Any]:
    """The types that a value may have, those of a union one by one, without those of items of lists and mappings."""
    if get_origin(annotation) is Annotated:
        return members(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [member for part in get_args(annotation) for member in members(part)]
    return [annotation]


def check_rules(rules: Sequence[Rule], fields: Mapping[str, Any]) -> Iterator[FieldError]:
    """Errors of all rules whose sections are in `fields`."""
    for rule in rules:
        names = inspect.signature(rule).parameters
        if all(name in fields for name in names):
            yield from rule(*(fields[name] for name in names))


def valid_fields(model: type[Config], data: Any) -> dict[str, Any]:
    """The validated fields of `data` that have no errors; none unless `data` is a mapping."""
    fields: dict[str, Any] = {}
    for name, field in model.model_fields.items() if isinstance(data, Mapping) else ():
        annotation: Any = Annotated[field.annotation, field]
        with suppress(ValidationError):
            if name in data:
                fields[name] = TypeAdapter(annotation).validate_python(complete(field, data[name]))
            elif not field.is_required():
                fields[name] = field.get_default(call_default_factory=True)
    return fields
