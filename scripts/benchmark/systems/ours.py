"""seq2attn, run as a user runs it."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from benchmark.setting import FIT_TOKENS, FIT_UPDATES, FOREVER, RECURRENT, ours
from benchmark.systems.base import Job, Progress, Start, System, Training, Translating


@dataclass(frozen=True)
class Ours(System):
    """seq2attn with its own engine."""

    name: ClassVar[str] = "ours"
    title: ClassVar[str] = "seq2attn"
    packages: ClassVar[tuple[str, ...]] = ("torch",)
    install: ClassVar[tuple[str, ...]] = ()
    overrides: tuple[str, ...] = ()
    every_way: bool = False  # padded and in one row, as it is and compiled

    @property
    def python(self) -> Path:
        """The interpreter that runs this."""
        return Path(sys.executable)

    def experiment(self, model: str) -> Path:
        """The file that says it all."""
        return self.setting.configs / f"{model}.yaml"

    def run(self, model: str) -> Path:
        """Where the model that translates is."""
        return self.setting.runs / model

    def timed(self, model: str, way: str = "") -> Path:
        """Where the training that is timed writes."""
        return self.setting.runs / "timed" / "-".join([model, *way.replace(",", "").split()])

    def ways(self, model: str) -> dict[str, list[str]]:
        """How it is trained, with the settings: as its config has it, or a Transformer in every way."""
        whole = [f"training.batch.micro_batch_tokens={self.setting.tokens}"] if self.setting.card else []
        if not self.every_way or model in RECURRENT:
            return {"": whole}
        ways = {"padded": whole, "packed": [*whole, "training.batch.padding_free=true"]}
        compiled = {f"{name}, compiled": [*way, "training.compile=true"] for name, way in ways.items()}
        return ways | compiled

    def trainings(self, model: str) -> list[Training]:
        """In each way."""
        return [self._training(model, name, way) for name, way in self.ways(model).items()]

    def _training(self, model: str, name: str, way: list[str]) -> Training:
        """Reported every other update, on a card less often: it waits for a report."""
        run = self.timed(model, name)
        settings = [
            f"run_dir={run}",
            f"training.max_duration=[{FOREVER} updates]",
            f"training.validation.every={FOREVER} updates",
            f"training.batch.tokens={self.setting.tokens}",
            f"training.report_every={20 if self.setting.card else 2}",
            *way,
            *self.overrides,
        ]
        command = ours("train", self.experiment(model), *_set(settings))

        def progress(line: str) -> Progress | None:
            return progress_of(line, run / "metrics.jsonl")

        return Training(command, progress, run.with_suffix(".log"), name)

    def fitted(self, model: str) -> Path:
        """In its run."""
        return self.run(model) / "model.safetensors"

    def fit(self, model: str) -> list[str]:
        """As many updates of as many tokens as the peers' models were given."""
        settings = [
            f"run_dir={self.run(model)}",
            f"training.max_duration=[{FIT_UPDATES} updates]",
            f"training.validation.every={FIT_UPDATES} updates",
            f"training.batch.tokens={FIT_TOKENS}",
            f"training.batch.micro_batch_tokens={FIT_TOKENS}",
            *self.overrides,
        ]
        return ours("train", self.experiment(model), *_set(settings))

    def translations(self, job: Job) -> list[Translating]:
        """`seq2attn translate`, or one sentence after the other in a process."""
        if job.one_by_one:
            return [self._one_by_one(job)]
        how = ["--greedy"] if job.beam == 1 else ["--beam", str(job.beam)]
        source = self.setting.data / f"{job.source}.de"
        command = ours("translate", self.run(job.model), "-i", source, "-o", job.output, *how)
        return [Translating([*command, *self.engine()], job.output, pieces=False)]

    def engine(self) -> list[str]:
        """What makes it another engine's."""
        return []

    def _one_by_one(self, job: Job) -> Translating:
        times = job.output.with_suffix(".ms.json")
        command = [
            sys.executable, "-m", "benchmark.programs.translator", str(self.run(job.model)),
            "--source", str(self.setting.data / f"{job.source}.de"), "--output", str(job.output),
            "--beam", str(job.beam), "--times", str(times), *self.engine(),
        ]  # fmt: skip
        return Translating(command, job.output, pieces=False, times=times)

    def starts(self) -> list[Start]:
        """Help, and the first translation of a Transformer."""
        found = [Start("help", "seq2attn --help", ours("--help"))]
        if self.has_model("t"):
            sentence = "Ein Mann schläft in einem grünen Raum auf einem Sofa."
            command = ours("translate", self.run("t"), sentence)
            found.append(Start("first translation", "T, beam 5", [*command, *self.engine()]))
        return found


@dataclass(frozen=True)
class OursCTranslate2(Ours):
    """seq2attn with the engine CTranslate2, where T has been exported to it: it has no recurrent models."""

    name: ClassVar[str] = "ours-ctranslate2"
    title: ClassVar[str] = "seq2attn --engine ctranslate2"
    packages: ClassVar[tuple[str, ...]] = ("torch", "ctranslate2")

    def missing(self) -> str | None:
        """CTranslate2 must be importable here."""
        return None if find_spec("ctranslate2") else "pip install 'seq2attn[ctranslate2]'"

    def fitted(self, model: str) -> Path:
        """Inside the run of ours."""
        return self.run(model) / "ctranslate2"

    def fit(self, model: str) -> list[str]:
        """An export of ours."""
        return ours("export", self.run(model), "--to", "ctranslate2") if model == "t" else []

    def trainings(self, model: str) -> list[Training]:
        """It only translates."""
        return []

    def translations(self, job: Job) -> list[Translating]:
        """T alone."""
        return super().translations(job) if job.model == "t" else []

    def engine(self) -> list[str]:
        """Said to `translate`, and to the program that translates one by one."""
        return ["--engine", "ctranslate2"]

    def starts(self) -> list[Start]:
        """The first translation; help is the same."""
        return super().starts()[1:] if self.fitted("t").exists() else []


def progress_of(line: str, metrics: Path) -> Progress | None:
    """What a line of the log says, and metrics.jsonl of the same update, which is written first."""
    found = re.search(r"update (\d+)  loss", line)
    if found is None or not metrics.is_file():
        return None
    update = int(found[1])
    for text in reversed(metrics.read_text("utf-8").split("\n")):
        if text.endswith("}"):
            entry = json.loads(text)
            if entry["kind"] == "train" and entry["update"] == update:
                return Progress(update, words=entry["target_tokens"], gpu_memory_mib=entry.get("gpu_memory_mib"))
    return None


def _set(settings: list[str]) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]
