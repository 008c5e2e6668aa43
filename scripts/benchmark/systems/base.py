"""A toolkit with its commands for training and translation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any, ClassVar

import yaml

from benchmark.setting import Setting

OPTIONS = Path(__file__).parents[1] / "peers"
"""Options of each toolkit: `common`, and those of each architecture."""


@dataclass(frozen=True)
class Progress:
    """Progress of a training in a line of its log."""

    update: int
    num_tokens: float | None = None  # target tokens so far, with EOS, without padding
    tokens_per_second: float | None = None  # or the speed since the previous line
    gpu_memory_mib: float | None = None  # peak, if reported


@dataclass(frozen=True)
class Training:
    """A command that trains until it is killed, with a parser of its output."""

    command: list[str]
    progress: Callable[[str], Progress | None]
    log: Path
    variant: str = ""
    note: str = ""


@dataclass(frozen=True)
class Job:
    """A translation to run."""

    model: str
    beam: int  # 1 is greedy
    source: str  # part of the text: the test set, `few` or `one`
    output: Path
    one_by_one: bool = False


@dataclass(frozen=True)
class Translating:
    """A command that translates a file."""

    command: list[str]
    output: Path
    pieces: bool  # output is subword tokens rather than text
    variant: str = ""
    stdin: Path | None = None
    times: Path | None = None  # file with the milliseconds of each sentence, if supported
    note: str = ""


@dataclass(frozen=True)
class Start:
    """A command with almost no work."""

    case: str  # `help`, or `first translation`
    name: str
    command: list[str]


@dataclass(frozen=True)
class System:
    """A toolkit. Unsupported operations have no commands."""

    setting: Setting
    name: ClassVar[str]
    on_gpu: ClassVar[bool] = True  # False if its options are for a CPU
    title: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]
    install: ClassVar[tuple[str, ...]]
    """Installation commands; `{venv}` is its virtual environment."""
    venv: str = field(default="", kw_only=True)

    @property
    def bin(self) -> Path:
        """Folder of its commands."""
        return self.python.parent

    @property
    def python(self) -> Path:
        """Its Python."""
        return self.setting.python(self.venv or self.name)

    def missing(self) -> str | None:
        """Installation command; None if it is installed."""
        if self.python.is_file():
            return None
        folder = self.python.parents[1]
        make = f"python -m venv {folder}"
        return " && ".join([make, *(command.format(venv=folder) for command in self.install)])

    def trainings(self, model: str) -> list[Training]:
        """Training commands of an architecture, in all variants that may be the fastest."""
        return []

    def fitted(self, model: str) -> Path | None:
        """Path of the model for translation."""
        return None

    def fit(self, model: str) -> list[str]:
        """Command that trains it."""
        return []

    def translations(self, job: Job) -> list[Translating]:
        """Translation commands, in all variants that may be the fastest."""
        return []

    def has_model(self, model: str) -> bool:
        """Return True if the model for translation exists."""
        path = self.fitted(model)
        return path is not None and path.exists()

    def starts(self) -> list[Start]:
        """Commands whose start-up time is measured."""
        return []

    def options(self, model: str, **values: object) -> tuple[Any, Any]:
        """Common options and those of the architecture, from the toolkit's file; `$name` is a value."""
        text = Template((OPTIONS / f"{self.name}.yaml").read_text("utf-8"))
        defaults = {"beam": 1, "batch": 1, "most": 1, "save": "", "data": self.setting.data}
        parts = yaml.safe_load(text.substitute(defaults | values))
        return parts["common"], parts.get(model)

    def config(self, model: str, save: Path, **values: object) -> Path:
        """Write a config file with these options."""
        common, specific = self.options(model, save=save, **values)
        path = save.with_suffix(".yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(merge(common, specific), sort_keys=False), "utf-8")
        return path

    def text(self, part: str, language: str = "de") -> Path:
        """Tokenized text."""
        return self.setting.data / f"{part}.bpe.{language}"


def merge(common: dict[str, Any], specific: dict[str, Any]) -> dict[str, Any]:
    """`common` overridden by `specific`; mappings are merged."""
    output = dict(common)
    for key, value in specific.items():
        before = output.get(key)
        output[key] = merge(before, value) if isinstance(value, dict) and isinstance(before, dict) else value
    return output
