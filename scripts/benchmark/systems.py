"""A system with its commands for training and translation, and seq2attn with its engines."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from benchmark.setting import FIT_TOKENS, FIT_UPDATES, FOREVER, RECURRENT, TRANSFORMERS, Setting, ours


@dataclass(frozen=True)
class Progress:
    """Progress of a training in a line of its log."""

    update: int
    num_tokens: float  # target tokens so far, with EOS, without padding
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
class Translating:
    """A command that translates a file."""

    command: list[str]
    output: Path
    variant: str = ""


@dataclass(frozen=True)
class System:
    """A system in this Python. Unsupported operations have no commands."""

    setting: Setting
    name: ClassVar[str]
    title: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]

    def missing(self) -> str | None:
        """Installation command; None if all packages can be imported."""
        absent = [package for package in self.packages if not find_spec(package)]
        return f"pip install {' '.join(absent)}" if absent else None

    def run(self, model: str) -> Path:
        """Our run directory of the model for translation."""
        return self.setting.runs / model

    def trainings(self, model: str) -> list[Training]:
        """Training commands of an architecture, in all variants that may be the fastest."""
        return []

    def fitted(self, model: str) -> Path | None:
        """Path of the model for translation."""
        return None

    def fit(self, model: str) -> list[str]:
        """Command that makes it."""
        return []

    def translations(self, model: str, beam: int, source: Path, output: Path) -> list[Translating]:
        """Translation commands, in all variants that may be the fastest; a beam of 1 is greedy."""
        return []

    def has_model(self, model: str) -> bool:
        """Return True if the model for translation exists."""
        path = self.fitted(model)
        return path is not None and path.exists()

    def program(self, *arguments: object) -> list[str]:
        """A module of `benchmark.programs` with its arguments."""
        name, *rest = map(str, arguments)
        return [sys.executable, "-m", f"benchmark.programs.{name}", *rest]


@dataclass(frozen=True)
class Ours(System):
    """seq2attn by its command line, with its native engine."""

    name: ClassVar[str] = "ours"
    title: ClassVar[str] = "seq2attn"
    packages: ClassVar[tuple[str, ...]] = ("torch",)
    overrides: tuple[str, ...] = ()

    def experiment(self, model: str) -> Path:
        """The config."""
        return self.setting.configs / f"{model}.yaml"

    def timed(self, model: str) -> Path:
        """Run directory of a timed training."""
        return self.setting.runs / "timed" / model

    def trainings(self, model: str) -> list[Training]:
        """One training. Reports on a GPU are rarer, because they synchronize."""
        run, setting = self.timed(model), self.setting
        settings = [
            f"run_dir={run}",
            f"training.max_duration=[{FOREVER} updates]",
            f"training.validation.every={FOREVER} updates",
            f"training.batch.tokens={setting.tokens}",
            f"training.report_every={20 if setting.gpu else 2}",
            *([f"training.batch.micro_batch_tokens={setting.tokens}"] if setting.gpu else []),
            *self.overrides,
        ]
        command = ours("train", self.experiment(model), *_set(settings))
        return [Training(command, lambda line: run_progress(line, run / "metrics.jsonl"), run.with_suffix(".log"))]

    def fitted(self, model: str) -> Path:
        """Weights of the run."""
        return self.run(model) / "model.safetensors"

    def fit(self, model: str) -> list[str]:
        """A short training."""
        settings = [
            f"run_dir={self.run(model)}",
            f"training.max_duration=[{FIT_UPDATES} updates]",
            f"training.validation.every={FIT_UPDATES} updates",
            f"training.batch.tokens={FIT_TOKENS}",
            f"training.batch.micro_batch_tokens={FIT_TOKENS}",
            *self.overrides,
        ]
        return ours("train", self.experiment(model), "--resume-if-exists", *_set(settings))

    def has_model(self, model: str) -> bool:
        """Return True if the training has ended: an interrupted one leaves weights without scores."""
        from seq2attn.experiment.run_directory import RunDirectory

        return super().has_model(model) and bool(RunDirectory(self.run(model)).weights_origin().get("scores"))

    def translations(self, model: str, beam: int, source: Path, output: Path) -> list[Translating]:
        """Translation by `seq2attn translate`; on a GPU also in bfloat16."""
        strategy = ["--greedy"] if beam == 1 else ["--beam", str(beam)]
        engine = self.engine(model)
        commands = list[Translating]()
        for precision in ("", "bfloat16") if self.setting.gpu and not engine else ("",):
            path = output.with_suffix(f".{precision}.txt") if precision else output
            options = [*strategy, *engine, *(["--precision", precision] if precision else [])]
            command = ours("translate", self.run(model), "-i", source, "-o", path, *options)
            commands.append(Translating(command, path, variant=precision))
        return commands

    def engine(self, model: str) -> list[str]:
        """Options of the engine."""
        return []


@dataclass(frozen=True)
class Exported(Ours):
    """seq2attn with another engine, for the exports of our models."""

    target: ClassVar[str]  # of `seq2attn export --to`
    quantization: ClassVar[str] = "float32"
    models: ClassVar[tuple[str, ...]] = (*TRANSFORMERS, *RECURRENT)

    def fitted(self, model: str) -> Path:
        """The export in our run."""
        return self.run(model) / f"{self.target}-{self.quantization}"

    def fit(self, model: str) -> list[str]:
        """Export of our model."""
        if model not in self.models:
            return []
        options = "--to", self.target, "--quantization", self.quantization
        return ours("export", self.run(model), self.fitted(model), *options)

    def trainings(self, model: str) -> list[Training]:
        """No training."""
        return []

    def translations(self, model: str, beam: int, source: Path, output: Path) -> list[Translating]:
        """Translation by the models that can be exported."""
        return super().translations(model, beam, source, output) if model in self.models else []

    def engine(self, model: str) -> list[str]:
        """Options for `translate`."""
        return ["--engine", self.target, "--export-dir", str(self.fitted(model))]


class OursCTranslate2(Exported):
    """CTranslate2; it has no recurrent models."""

    name = "ours-ctranslate2"
    title = "seq2attn --engine ctranslate2"
    packages = ("torch", "ctranslate2")
    target = "ctranslate2"
    models = (*TRANSFORMERS,)


class OursCTranslate2Int8(OursCTranslate2):
    """CTranslate2 with int8 weights."""

    name = "ours-ctranslate2-int8"
    title = "seq2attn --engine ctranslate2 (int8)"
    quantization = "int8"


class OursOnnx(Exported):
    """ONNX Runtime."""

    name = "ours-onnx"
    title = "seq2attn --engine onnx"
    packages = ("torch", "onnxruntime")
    target = "onnx"


class OursOnnxInt8(OursOnnx):
    """ONNX Runtime with int8 weights."""

    name = "ours-onnx-int8"
    title = "seq2attn --engine onnx (int8)"
    quantization = "int8"


ENGINES: dict[str, type[System]] = {
    cls.name.removeprefix("ours-"): cls for cls in (OursCTranslate2, OursCTranslate2Int8, OursOnnx, OursOnnxInt8)
}
"""Our other engines by name."""


def run_progress(line: str, metrics: Path) -> Progress | None:
    """Progress from a line of our log and metrics.jsonl of the same update, which is written first."""
    match = re.search(r"update (\d+)  loss", line)
    if match is None or not metrics.is_file():
        return None
    update = int(match[1])
    for text in reversed(metrics.read_text("utf-8").split("\n")):
        if text.endswith("}"):
            entry = json.loads(text)
            if entry["kind"] == "train" and entry["update"] == update:
                return Progress(update, entry["target_tokens"], entry.get("gpu_memory_mib"))
    return None


def _set(settings: list[str]) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


def loop_progress(line: str) -> Progress | None:
    """Progress in the output of our loops: the update, and the target tokens so far."""
    match = re.match(r"PROGRESS (\d+) (\d+)(?: \S+ gpu (\d+))?", line)
    if match is None:
        return None
    return Progress(int(match[1]), float(match[2]), float(match[3]) if match[3] else None)


@dataclass(frozen=True)
class HuggingFace(System):
    """MarianMTModel in a plain loop."""

    name: ClassVar[str] = "hf"
    title: ClassVar[str] = "Hugging Face Marian"
    packages: ClassVar[tuple[str, ...]] = ("transformers", "torch")

    def trainings(self, model: str) -> list[Training]:
        """With dropout on attention weights, as in its configs, and without, as in ours."""
        if model not in TRANSFORMERS:
            return []
        return [
            Training(
                self.program("marian", self.setting.data, model, self.setting.tokens, dropout),
                loop_progress,
                self.setting.logs / f"train_hf_{model}_{dropout}.log",
                variant=f"attention dropout {dropout}",
                note="plain loop",
            )
            for dropout in (0.1, 0.0)
        ]


@dataclass(frozen=True)
class Plain(System):
    """torch.nn.Transformer, and loops over nn.GRUCell and nn.LSTMCell, as in tutorials."""

    name: ClassVar[str] = "plain"
    title: ClassVar[str] = "plain PyTorch loop"
    packages: ClassVar[tuple[str, ...]] = ("torch",)

    def trainings(self, model: str) -> list[Training]:
        """Transformers without dropout on attention weights, which is faster."""
        log = self.setting.logs / f"train_plain_{model}.log"
        return [Training(self.program("plain", self.setting.data, model, self.setting.tokens), loop_progress, log)]


PEERS: dict[str, type[System]] = {cls.name: cls for cls in (HuggingFace, Plain)}
