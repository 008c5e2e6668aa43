"""What every typed config shares: unknown keys are refused, values are frozen, docstrings are the help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict


class Config(BaseModel):
    """A frozen, typed part of a YAML file. A string below a field is that field's help."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Placed(str):
    """A YAML string that knows the folder of the file it stands in."""

    folder: Path

    def __new__(cls, text: str, folder: Path) -> Placed:
        """`text`, written in a file of `folder`."""
        placed = super().__new__(cls, text)
        placed.folder = folder
        return placed


def _beside_its_file(value: Any) -> Any:
    return (value.folder / Path(value).expanduser()).resolve() if isinstance(value, Placed) else value


InputPath = Annotated[Path, BeforeValidator(_beside_its_file)]
"""A path to read from: relative to the file it is written in, or on the command line to the working directory."""


class Mistake(ValueError):
    """One mistake across fields: `key` is the dotted path, from the config that raises it, of what to point at."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(f"{key}: {message}")
        self.key, self.message = key, message


class Mistakes(ValueError):
    """Several mistakes across fields, found together. Raise it from a pydantic `model_validator`."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__("; ".join(str(mistake) for mistake in mistakes))
        self.mistakes = mistakes
