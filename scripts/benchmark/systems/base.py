"""What is measured: a toolkit, and how it is told to train and to translate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any, ClassVar

import yaml

from benchmark.setting import Setting

OPTIONS = Path(__file__).parents[1] / "peers"
"""What toolkits are told, a file each: `common`, and what each architecture has besides."""


@dataclass(frozen=True)
class Progress:
    """What a line of a log tells of a training."""

    update: int
    words: float | None = None  # target tokens so far, ends counted, padding not
    rate: float | None = None  # or those a second since the line before
    gpu_memory_mib: float | None = None  # the most memory of a card that was taken, where it tells


@dataclass(frozen=True)
class Training:
    """A command that trains until it is stopped, and how its lines are read."""

    command: list[str]
    progress: Callable[[str], Progress | None]
    log: Path
    variant: str = ""
    note: str = ""


@dataclass(frozen=True)
class Job:
    """What is to be translated, and how."""

    model: str
    beam: int  # 1 is greedy
    source: str  # the name of a part of the text: the test set, `few`, `one`
    output: Path
    one_by_one: bool = False


@dataclass(frozen=True)
class Translating:
    """A command that translates a file and ends."""

    command: list[str]
    output: Path
    pieces: bool  # whether it writes pieces, or text
    variant: str = ""
    stdin: Path | None = None
    times: Path | None = None  # where it leaves the milliseconds of each sentence, if it can
    note: str = ""


@dataclass(frozen=True)
class Start:
    """A command that has next to nothing to do."""

    case: str  # `help`, or `first translation`
    name: str
    command: list[str]


@dataclass(frozen=True)
class System:
    """A toolkit. What it cannot do has an empty list."""

    setting: Setting
    name: ClassVar[str]
    title: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]
    install: ClassVar[tuple[str, ...]]
    """Commands after which it is there; `{venv}` is its virtual environment."""
    venv: str = field(default="", kw_only=True)

    @property
    def bin(self) -> Path:
        """Where its commands lie."""
        return self.python.parent

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.setting.python(self.venv or self.name)

    def missing(self) -> str | None:
        """How to install it, when it is not."""
        if self.python.is_file():
            return None
        folder = self.python.parents[1]
        make = f"python -m venv {folder}"
        return " && ".join([make, *(command.format(venv=folder) for command in self.install)])

    def trainings(self, model: str) -> list[Training]:
        """How it trains one of the architectures, in all ways that may be its best."""
        return []

    def fitted(self, model: str) -> Path | None:
        """Where the model that translates lies, or will."""
        return None

    def fit(self, model: str) -> list[str]:
        """The command that makes it."""
        return []

    def translations(self, job: Job) -> list[Translating]:
        """How it translates, in all ways that may be its best."""
        return []

    def has_model(self, model: str) -> bool:
        """Whether the model that translates has been fitted."""
        found = self.fitted(model)
        return found is not None and found.exists()

    def starts(self) -> list[Start]:
        """Commands whose start-up time a user feels."""
        return []

    def options(self, model: str, **values: object) -> tuple[Any, Any]:
        """What is common and what the architecture has besides, from the toolkit's file; `$name` is a value."""
        text = Template((OPTIONS / f"{self.name}.yaml").read_text("utf-8"))
        blanks = {"beam": 1, "batch": 1, "most": 1, "save": "", "data": self.setting.data}
        parts = yaml.safe_load(text.substitute(blanks | values))
        return parts["common"], parts.get(model)

    def config(self, model: str, save: Path, **values: object) -> Path:
        """A file of these options for a toolkit that takes one."""
        common, own = self.options(model, save=save, **values)
        path = save.with_suffix(".yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(merged(common, own), sort_keys=False), "utf-8")
        return path

    def text(self, part: str, language: str = "de") -> Path:
        """Segmented text, as most toolkits are given it."""
        return self.setting.data / f"{part}.bpe.{language}"


def merged(common: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Both, `own` where they differ; what is a table on both sides is merged likewise."""
    both = dict(common)
    for key, value in own.items():
        before = both.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            value = merged(before, value)
        both[key] = value
    return both
