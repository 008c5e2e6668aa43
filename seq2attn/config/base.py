"""Base class of configs: unknown keys are errors, values are frozen, docstrings are the help."""

from __future__ import annotations

import inspect
import os.path
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, create_model, model_validator


class PathString(str):
    """A YAML string with the folder of its file."""

    folder: Path

    def __new__(cls, text: str, folder: Path) -> PathString:
        """`text`, written in a file of `folder`."""
        placed = super().__new__(cls, text)
        placed.folder = folder
        return placed

    def __getnewargs__(self) -> tuple[str, Path]:  # type: ignore[override]  # what `__new__` needs to copy it
        return str(self), self.folder


def _resolve_path(value: Any) -> Any:
    if not isinstance(value, str | Path):
        return value
    folder = value.folder if isinstance(value, PathString) else Path.cwd()
    try:
        path = Path(os.path.abspath(folder / Path(value).expanduser()))  # noqa: PTH100  # keeps links
        resolved = path.resolve()
        # A pipe, such as /dev/fd/63 of `<(...)`, resolves to a name that no file has.
        return resolved if resolved.exists() or not path.exists() else path
    except RuntimeError as error:  # a `~` of nobody's, links in a circle
        raise ValueError(f"leads nowhere: {error}") from None


InputPath = Annotated[Path, BeforeValidator(_resolve_path)]
"""A path to read from: relative to the file it is written in, elsewhere to the working directory."""


class FieldError(ValueError):
    """A mistake across fields. `field`: dotted key of its place, relative to the config that raises it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field, self.message = field, message

    def __reduce__(self) -> tuple[type[FieldError], tuple[str, str]]:
        return type(self), (self.field, self.message)


class FieldErrors(ValueError):  # noqa: N818
    """Several mistakes across fields, to be raised by a pydantic `model_validator`."""

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

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        if mistakes := check_rules(self.rules, dict(self)):
            raise FieldErrors(mistakes)
        return self


def check_rules(rules: Sequence[Rule], fields: Mapping[str, Any]) -> list[FieldError]:
    """Errors of all rules whose fields are in `fields`."""
    needs = [(rule, list(inspect.signature(rule).parameters)) for rule in rules]
    return [
        mistake
        for rule, names in needs
        if all(name in fields for name in names)
        for mistake in rule(*(fields[name] for name in names))
    ]


def valid_fields(model: type[Config], data: Any, error: ValidationError) -> dict[str, Any]:
    """Validated fields of `data` without errors; none if `error` is about the whole."""
    invalid = {detail["loc"][0] for detail in error.errors() if detail["loc"]}
    if not invalid or not isinstance(data, Mapping):
        return {}
    valid = {name: field for name, field in model.model_fields.items() if name not in invalid}
    part: Any = create_model(model.__name__, __base__=Config, **{n: (f.annotation, f) for n, f in valid.items()})  # type: ignore[call-overload]
    values = {name: data[name] for name in valid if name in data}
    return dict(part.model_validate(values))
