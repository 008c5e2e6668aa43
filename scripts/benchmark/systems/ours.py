"""seq2attn by its command line."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from benchmark.setting import FIT_TOKENS, FIT_UPDATES, FOREVER, RECURRENT, TRANSFORMERS, ours
from benchmark.systems.base import Job, Progress, Start, System, Training, Translating


@dataclass(frozen=True)
class Ours(System):
    """seq2attn with its native engine."""

    name: ClassVar[str] = "ours"
    title: ClassVar[str] = "seq2attn"
    packages: ClassVar[tuple[str, ...]] = ("torch",)
    install: ClassVar[tuple[str, ...]] = ()
    overrides: tuple[str, ...] = ()
    every_way: bool = False  # padded and packed, plain and compiled

    @property
    def python(self) -> Path:
        """This Python."""
        return Path(sys.executable)

    def experiment(self, model: str) -> Path:
        """The config."""
        return self.setting.configs / f"{model}.yaml"

    def run(self, model: str) -> Path:
        """Run directory of the model for translation."""
        return self.setting.runs / model

    def timed(self, model: str, way: str = "") -> Path:
        """Run directory of a timed training."""
        return self.setting.runs / "timed" / "-".join([model, *way.replace(",", "").split()])

    def ways(self, model: str) -> dict[str, list[str]]:
        """Variants of training with their overrides: one, or for a Transformer with `every_way` all."""
        whole = [f"training.batch.micro_batch_tokens={self.setting.tokens}"] if self.setting.gpu else []
        if not self.every_way or model in RECURRENT:
            return {"": whole}
        ways = {"padded": whole, "packed": [*whole, "training.batch.padding_free=true"]}
        compiled = {f"{name}, compiled": [*way, "training.compile=true"] for name, way in ways.items()}
        return ways | compiled

    def trainings(self, model: str) -> list[Training]:
        """All variants."""
        return [self._training(model, name, way) for name, way in self.ways(model).items()]

    def _training(self, model: str, name: str, way: list[str]) -> Training:
        """Reports on a GPU are rarer, because they synchronize."""
        run = self.timed(model, name)
        settings = [
            f"run_dir={run}",
            f"training.max_duration=[{FOREVER} updates]",
            f"training.validation.every={FOREVER} updates",
            f"training.batch.tokens={self.setting.tokens}",
            f"training.report_every={20 if self.setting.gpu else 2}",
            *way,
            *self.overrides,
        ]
        command = ours("train", self.experiment(model), *_set(settings))

        def progress(line: str) -> Progress | None:
            return progress_of(line, run / "metrics.jsonl")

        return Training(command, progress, run.with_suffix(".log"), name)

    def fitted(self, model: str) -> Path:
        """Weights of the run."""
        return self.run(model) / "model.safetensors"

    def fit(self, model: str) -> list[str]:
        """Training with the same updates and tokens as the peers."""
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
        """Translation by `seq2attn translate`, or one sentence at a time in one process."""
        if job.one_by_one:
            return [self._one_by_one(job)]
        strategy = ["--greedy"] if job.beam == 1 else ["--beam", str(job.beam)]
        source = self.setting.data / f"{job.source}.de"
        command = ours("translate", self.run(job.model), "-i", source, "-o", job.output, *strategy)
        engine = self.engine(job.model)
        whole = Translating([*command, *engine], job.output, pieces=False)
        if not self.setting.gpu or engine:
            return [whole]
        output = job.output.with_suffix(".bfloat16.txt")
        command = ours("translate", self.run(job.model), "-i", source, "-o", output, *strategy)
        faster = Translating([*command, "--precision", "bfloat16"], output, pieces=False, variant="bfloat16")
        return [whole, faster]

    def engine(self, model: str) -> list[str]:
        """Options of the engine."""
        return []

    def _one_by_one(self, job: Job) -> Translating:
        times = job.output.with_suffix(".ms.json")
        command = [
            sys.executable, "-m", "benchmark.programs.translator", str(self.run(job.model)),
            "--source", str(self.setting.data / f"{job.source}.de"), "--output", str(job.output),
            "--beam", str(job.beam), "--times", str(times), *self.engine(job.model),
        ]  # fmt: skip
        return Translating(command, job.output, pieces=False, times=times)

    def starts(self) -> list[Start]:
        """The help, and the first translation of a Transformer."""
        starts = [Start("help", "seq2attn --help", ours("--help"))]
        if self.has_model("t"):
            sentence = "Ein Mann schläft in einem grünen Raum auf einem Sofa."
            command = ours("translate", self.run("t"), sentence)
            starts.append(Start("first translation", "T, beam 5", [*command, *self.engine("t")]))
        return starts


@dataclass(frozen=True)
class OursExported(Ours):
    """seq2attn with another engine, for the exports of our models."""

    target: ClassVar[str]  # of `seq2attn export --to`
    quantization: ClassVar[str] = "float32"
    models: ClassVar[tuple[str, ...]] = (*TRANSFORMERS, *RECURRENT)

    def missing(self) -> str | None:
        """Installation command, unless the engine can be imported."""
        return None if find_spec(self.packages[-1]) else f"pip install 'seq2attn[{self.target}]'"

    def fitted(self, model: str) -> Path:
        """The export in our run."""
        return self.run(model) / f"{self.target}-{self.quantization}"

    def fit(self, model: str) -> list[str]:
        """Export of our model."""
        if model not in self.models:
            return []
        return ours(
            "export", self.run(model), self.fitted(model), "--to", self.target, "--quantization", self.quantization
        )

    def trainings(self, model: str) -> list[Training]:
        """No training."""
        return []

    def translations(self, job: Job) -> list[Translating]:
        """Translation by the models that can be exported."""
        return super().translations(job) if job.model in self.models else []

    def engine(self, model: str) -> list[str]:
        """Options for `translate`, and for the program of single sentences."""
        return ["--engine", self.target, "--export-dir", str(self.fitted(model))]

    def starts(self) -> list[Start]:
        """The first translation; the help is the same."""
        return super().starts()[1:] if self.fitted("t").exists() else []


@dataclass(frozen=True)
class OursCTranslate2(OursExported):
    """seq2attn with the CTranslate2 engine."""

    name: ClassVar[str] = "ours-ctranslate2"
    title: ClassVar[str] = "seq2attn --engine ctranslate2"
    packages: ClassVar[tuple[str, ...]] = ("torch", "ctranslate2")
    target: ClassVar[str] = "ctranslate2"
    models: ClassVar[tuple[str, ...]] = (*TRANSFORMERS,)


@dataclass(frozen=True)
class OursOnnx(OursExported):
    """seq2attn with ONNX Runtime."""

    name: ClassVar[str] = "ours-onnx"
    title: ClassVar[str] = "seq2attn --engine onnx"
    packages: ClassVar[tuple[str, ...]] = ("torch", "onnxruntime")
    target: ClassVar[str] = "onnx"


@dataclass(frozen=True)
class OursOnnxInt8(OursOnnx):
    """The same with int8 weights."""

    name: ClassVar[str] = "ours-onnx-int8"
    title: ClassVar[str] = "seq2attn --engine onnx (int8)"
    quantization: ClassVar[str] = "int8"


def progress_of(line: str, metrics: Path) -> Progress | None:
    """Progress from a line of the log and metrics.jsonl of the same update, which is written first."""
    match = re.search(r"update (\d+)  loss", line)
    if match is None or not metrics.is_file():
        return None
    update = int(match[1])
    for text in reversed(metrics.read_text("utf-8").split("\n")):
        if text.endswith("}"):
            entry = json.loads(text)
            if entry["kind"] == "train" and entry["update"] == update:
                return Progress(update, num_tokens=entry["target_tokens"], gpu_memory_mib=entry.get("gpu_memory_mib"))
    return None


def _set(settings: list[str]) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]
