"""Libraries rather than toolkits: Hugging Face's Marian and PyTorch's own modules in plain loops, and CTranslate2."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from benchmark.setting import MAX_TOKENS, TRANSFORMERS, ours
from benchmark.systems.base import Job, Progress, Start, System, Training, Translating


def progress_of(line: str) -> Progress | None:
    """Progress in the output of our loops: the update, and the target tokens so far."""
    match = re.match(r"PROGRESS (\d+) (\d+)(?: \S+ gpu (\d+))?", line)
    if match is None:
        return None
    return Progress(int(match[1]), num_tokens=float(match[2]), gpu_memory_mib=float(match[3]) if match[3] else None)


@dataclass(frozen=True)
class _Library(System):
    """A library in our program `benchmark.programs.NAME`."""

    program: ClassVar[str]

    def command(self, verb: str, *arguments: object) -> list[str]:
        """The program, run with the library's Python."""
        module = f"benchmark.programs.{self.program}"
        return [str(self.python), "-m", module, verb, str(self.setting.data), *map(str, arguments)]

    def weights(self, model: str) -> Path:
        """Our run with the weights for translation."""
        return self.setting.runs / model


@dataclass(frozen=True)
class HuggingFace(_Library):
    """MarianMTModel, which can load the weights of our Transformers."""

    name: ClassVar[str] = "hf"
    title: ClassVar[str] = "Hugging Face Marian"
    packages: ClassVar[tuple[str, ...]] = ("transformers", "torch")
    install: ClassVar[tuple[str, ...]] = ("{venv}/bin/pip install torch==2.13.0 transformers safetensors",)
    program: ClassVar[str] = "marian"

    def fitted(self, model: str) -> Path | None:
        """Our weights."""
        return self.weights(model) / "model.safetensors" if model in TRANSFORMERS else None

    def trainings(self, model: str) -> list[Training]:
        """With dropout on attention weights, as in its configs, and without, as in ours."""
        if model not in TRANSFORMERS:
            return []
        return [
            Training(
                self.command("train", model, self.setting.tokens, "--attention-dropout", dropout),
                progress_of,
                self.setting.work / f"train_hf_{model}_{dropout}.log",
                variant=f"attention dropout {dropout}",
                note="plain loop",
            )
            for dropout in (0.1, 0.0)
        ]

    def translations(self, job: Job) -> list[Translating]:
        """`generate`, with sentences sorted by length; on a GPU also in bfloat16."""
        batch = 1 if job.one_by_one else self.setting.sentences_per_batch
        commands = list[Translating]()
        for kind in ("float32", "bfloat16") if self.setting.gpu else ("float32",):
            if job.model not in TRANSFORMERS:
                continue
            output = job.output.with_name(f"{job.output.stem}.{kind}{job.output.suffix}")
            times = output.with_suffix(".ms.json") if job.one_by_one else None
            command = self.command(
                "translate", job.model, self.weights(job.model), "--source", self.text(job.source), "--output", output,
                "--beam", job.beam, "--batch", batch, "--most", MAX_TOKENS, "--type", kind,
                *(["--times", times] if times else []),
            )  # fmt: skip
            commands.append(Translating(command, output, pieces=True, variant=kind, times=times, note="our weights"))
        return commands

    def starts(self) -> list[Start]:
        """Import time: there is no command."""
        code = "from transformers import MarianMTModel"
        return [Start("help", f"python -c '{code}'", [str(self.python), "-c", code])]


@dataclass(frozen=True)
class Plain(_Library):
    """torch.nn.Transformer, and loops over nn.GRUCell and nn.LSTMCell, as in tutorials."""

    name: ClassVar[str] = "plain"
    title: ClassVar[str] = "plain PyTorch loop"
    packages: ClassVar[tuple[str, ...]] = ("torch",)
    install: ClassVar[tuple[str, ...]] = ("{venv}/bin/pip install torch==2.13.0",)
    program: ClassVar[str] = "plain"

    @property
    def python(self) -> Path:
        """This Python."""
        return Path(sys.executable)

    def trainings(self, model: str) -> list[Training]:
        """Transformers without dropout on attention weights, which is faster."""
        log = self.setting.work / f"train_plain_{model}.log"
        return [Training(self.command("train", model, self.setting.tokens), progress_of, log)]


@dataclass(frozen=True)
class CTranslate2(_Library):
    """CTranslate2 by its API, with our weights, exported by `seq2attn export`."""

    name: ClassVar[str] = "ctranslate2"
    title: ClassVar[str] = "CTranslate2"
    packages: ClassVar[tuple[str, ...]] = ("ctranslate2",)
    install: ClassVar[tuple[str, ...]] = ("{venv}/bin/pip install ctranslate2",)
    program: ClassVar[str] = "ctranslate2"

    @property
    def python(self) -> Path:
        """The Python of its environment, or this Python."""
        path = self.setting.python("ct2")
        return path if path.is_file() else Path(sys.executable)

    def missing(self) -> str | None:
        """Installation command, unless it can be imported here."""
        if self.setting.python("ct2").is_file() or find_spec("ctranslate2"):
            return None
        return "pip install ctranslate2"

    def fitted(self, model: str) -> Path | None:
        """The export in our run; recurrent models are not supported."""
        return self.weights(model) / "ctranslate2" if model in TRANSFORMERS else None

    def fit(self, model: str) -> list[str]:
        """Export of our model."""
        return ours("export", self.weights(model), "--to", "ctranslate2")

    def translations(self, job: Job) -> list[Translating]:
        """On a CPU one thread per worker for many sentences, one worker for single sentences: the fastest settings."""
        threads, gpu = self.setting.threads, self.setting.gpu
        workers = (1, threads) if job.one_by_one or gpu else (threads, 1)
        commands = list[Translating]()
        if job.model not in TRANSFORMERS:
            return commands
        for kind in ("float32", "float16" if gpu else "int8"):
            output = job.output.with_name(f"{job.output.stem}.{kind}{job.output.suffix}")
            times = output.with_suffix(".ms.json") if job.one_by_one else None
            command = self.command(
                "translate", self.fitted(job.model), "--source", self.text(job.source), "--output", output,
                "--beam", job.beam, "--batch", 1 if job.one_by_one else self.setting.sentences_per_batch,
                "--most", MAX_TOKENS, "--type", kind, "--device", "cuda" if gpu else "cpu", "--workers", *workers,
                *(["--times", times] if times else []),
            )  # fmt: skip
            note = f"our weights; {workers[0]} workers of {workers[1]} threads"
            commands.append(Translating(command, output, pieces=True, variant=kind, times=times, note=note))
        return commands

    def starts(self) -> list[Start]:
        """Import time: there is no command."""
        code = "import ctranslate2"
        return [Start("help", f"python -c '{code}'", [str(self.python), "-c", code])]
