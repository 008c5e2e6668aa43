"""Libraries rather than toolkits: Hugging Face's Marian and PyTorch's own modules in plain loops, and CTranslate2."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from benchmark.setting import CARD_MODELS, MOST_WORDS, SENTENCES_A_BATCH, ours
from benchmark.systems.base import Job, Progress, Start, System, Training, Translating


def progress_of(line: str) -> Progress | None:
    """What our loops print: the update, and the target tokens so far."""
    found = re.match(r"PROGRESS (\d+) (\d+)(?: \S+ card (\d+))?", line)
    if found is None:
        return None
    return Progress(int(found[1]), words=float(found[2]), gpu_memory_mib=float(found[3]) if found[3] else None)


@dataclass(frozen=True)
class _Library(System):
    """A library in a program of ours, `benchmark.programs.NAME`."""

    program: ClassVar[str]

    def command(self, verb: str, *arguments: object) -> list[str]:
        """The program, run by the library's own interpreter."""
        module = f"benchmark.programs.{self.program}"
        return [str(self.python), "-m", module, verb, str(self.setting.data), *map(str, arguments)]

    def weights(self, model: str) -> Path:
        """The run of ours whose weights it translates with."""
        return self.setting.runs / model


@dataclass(frozen=True)
class HuggingFace(_Library):
    """MarianMTModel: post-norm, as our T is, so that it can have the same weights."""

    name: ClassVar[str] = "hf"
    title: ClassVar[str] = "Hugging Face Marian"
    packages: ClassVar[tuple[str, ...]] = ("transformers", "torch")
    install: ClassVar[tuple[str, ...]] = ("{venv}/bin/pip install torch==2.13.0 transformers safetensors",)
    program: ClassVar[str] = "marian"

    def fitted(self, model: str) -> Path | None:
        """Ours."""
        return self.weights(model) / "model.safetensors" if model == "t" else None

    def trainings(self, model: str) -> list[Training]:
        """With dropout on attention weights, which its own configs have, and without, as ours."""
        if model != "t" and model not in CARD_MODELS:
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
        """`generate`, sorted by length."""
        if job.model != "t":
            return []
        batch = 1 if job.one_by_one else SENTENCES_A_BATCH
        times = job.output.with_suffix(".ms.json") if job.one_by_one else None
        command = self.command(
            "translate", self.weights("t"), "--source", self.text(job.source), "--output", job.output,
            "--beam", job.beam, "--batch", batch, "--most", MOST_WORDS, *(["--times", times] if times else []),
        )  # fmt: skip
        return [Translating(command, job.output, pieces=True, times=times, note="our weights")]

    def starts(self) -> list[Start]:
        """There is no command; what a script pays first."""
        code = "from transformers import MarianMTModel"
        return [Start("help", f"python -c '{code}'", [str(self.python), "-c", code])]


@dataclass(frozen=True)
class Plain(_Library):
    """torch.nn.Transformer, and loops over nn.GRUCell and nn.LSTMCell, as tutorials write them."""

    name: ClassVar[str] = "plain"
    title: ClassVar[str] = "plain PyTorch loop"
    packages: ClassVar[tuple[str, ...]] = ("torch",)
    install: ClassVar[tuple[str, ...]] = ("{venv}/bin/pip install torch==2.13.0",)
    program: ClassVar[str] = "plain"

    @property
    def python(self) -> Path:
        """The interpreter that runs this: it needs nothing but PyTorch."""
        return Path(sys.executable)

    def trainings(self, model: str) -> list[Training]:
        """T without dropout on attention weights, which makes it faster."""
        if model in CARD_MODELS:
            return []
        log = self.setting.work / f"train_plain_{model}.log"
        return [Training(self.command("train", model, self.setting.tokens), progress_of, log)]


@dataclass(frozen=True)
class CTranslate2(_Library):
    """CTranslate2 by its own API, with our weights, which `seq2attn export` has brought over."""

    name: ClassVar[str] = "ctranslate2"
    title: ClassVar[str] = "CTranslate2"
    packages: ClassVar[tuple[str, ...]] = ("ctranslate2",)
    install: ClassVar[tuple[str, ...]] = ("{venv}/bin/pip install ctranslate2",)
    program: ClassVar[str] = "ctranslate2"

    @property
    def python(self) -> Path:
        """Its own environment, or this one."""
        own = self.setting.python("ct2")
        return own if own.is_file() else Path(sys.executable)

    def missing(self) -> str | None:
        """It may be importable here."""
        if self.setting.python("ct2").is_file() or find_spec("ctranslate2"):
            return None
        return "pip install ctranslate2"

    def fitted(self, model: str) -> Path | None:
        """Beside ours. It has no recurrent models."""
        return self.weights(model) / "ctranslate2" if model == "t" else None

    def fit(self, model: str) -> list[str]:
        """An export of ours."""
        return ours("export", self.weights(model), "--to", "ctranslate2")

    def translations(self, job: Job) -> list[Translating]:
        """Two workers of a thread each for many sentences, one worker with all threads for one: its fastest."""
        threads = self.setting.threads
        workers = (1, threads) if job.one_by_one else (threads, 1)
        found = list[Translating]()
        if job.model != "t":
            return found
        for kind in ("float32", "int8"):
            output = job.output.with_name(f"{job.output.stem}.{kind}{job.output.suffix}")
            times = output.with_suffix(".ms.json") if job.one_by_one else None
            command = self.command(
                "translate", self.fitted(job.model), "--source", self.text(job.source), "--output", output,
                "--beam", job.beam, "--batch", 1 if job.one_by_one else SENTENCES_A_BATCH, "--most", MOST_WORDS,
                "--type", kind, "--workers", *workers, *(["--times", times] if times else []),
            )  # fmt: skip
            note = f"our weights; {workers[0]} workers of {workers[1]} threads"
            found.append(Translating(command, output, pieces=True, variant=kind, times=times, note=note))
        return found

    def starts(self) -> list[Start]:
        """There is no command; what a script pays first."""
        code = "import ctranslate2"
        return [Start("help", f"python -c '{code}'", [str(self.python), "-c", code])]
