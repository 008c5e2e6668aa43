"""OpenNMT-py and its successor eole."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from benchmark.setting import FIT_TOKENS, FIT_UPDATES, FOREVER, MAX_TOKENS, SENTENCES_PER_BATCH, TOKENS
from benchmark.systems.base import Job, Progress, Start, System, Training, Translating

NO_CAP = "-max_length_ratio 0: the length is capped for all alike"
REPORT = re.compile(r"Step\s+(\d+)/.*?([\d.]+)/\s*([\d.]+) tok/s")


def progress_of(line: str) -> Progress | None:
    """Progress in their logs: source/target tokens per second since the last report."""
    match = REPORT.search(line)
    return Progress(int(match[1]), tokens_per_second=float(match[3])) if match else None


@dataclass(frozen=True)
class OpenNMT(System):
    """OpenNMT-py 3.5; pre-norm, otherwise as ours."""

    name: ClassVar[str] = "onmt"
    on_gpu: ClassVar[bool] = False
    title: ClassVar[str] = "OpenNMT-py"
    packages: ClassVar[tuple[str, ...]] = ("OpenNMT-py", "torch")
    # It requires torch below 2.3 but runs with later versions; only an unused transform imports fasttext.
    install: ClassVar[tuple[str, ...]] = (
        "{venv}/bin/pip install torch==2.13.0 numpy sentencepiece configargparse 'ctranslate2>=4,<5' tensorboard flask "
        "waitress 'pyonmttok>=1.37,<2' pyyaml sacrebleu rapidfuzz pyahocorasick six subword-nmt spacy",
        "touch {venv}/lib/python3*/site-packages/fasttext.py",
        "{venv}/bin/pip install --no-deps OpenNMT-py==3.5.1",
    )

    def trainings(self, model: str) -> list[Training]:
        """Training with batches of similar lengths from the whole corpus."""
        config = self.config(model, self.setting.work / f"onmt_{model}", tokens=TOKENS, updates=FOREVER)
        command = [str(self.bin / "onmt_train"), "-config", str(config)]
        return [Training(command, progress_of, self.setting.work / f"train_onmt_{model}.log")]

    def fitted(self, model: str) -> Path:
        """The last checkpoint."""
        return self.setting.work / f"onmt_fit_{model.upper()}_step_{FIT_UPDATES}.pt"

    def fit(self, model: str) -> list[str]:
        """Training of the model for translation."""
        save = self.setting.work / f"onmt_fit_{model.upper()}"
        config = self.config(model, save, tokens=FIT_TOKENS, updates=FIT_UPDATES)
        return [str(self.bin / "onmt_train"), "-config", str(config)]

    def translations(self, job: Job) -> list[Translating]:
        """Translation by `onmt_translate`."""
        batch = 1 if job.one_by_one else SENTENCES_PER_BATCH
        command = [
            self.bin / "onmt_translate", "-model", self.fitted(job.model), "-src", self.text(job.source),
            "-output", job.output, "-beam_size", job.beam, "-batch_size", batch, "-max_length", MAX_TOKENS,
            "-max_length_ratio", 0, "-gpu", -1,
        ]  # fmt: skip
        return [Translating(list(map(str, command)), job.output, pieces=True, note=NO_CAP)]

    def starts(self) -> list[Start]:
        """The help."""
        return [Start("help", "onmt_translate --help", [str(self.bin / "onmt_translate"), "--help"])]


@dataclass(frozen=True)
class Eole(System):
    """eole 0.6; pre-norm, otherwise as ours."""

    name: ClassVar[str] = "eole"
    on_gpu: ClassVar[bool] = False
    title: ClassVar[str] = "eole"
    packages: ClassVar[tuple[str, ...]] = ("eole", "torch")
    install: ClassVar[tuple[str, ...]] = (
        "{venv}/bin/pip install torch==2.13.0 numpy sentencepiece configargparse 'ctranslate2>=4,<5' fastapi "
        "huggingface_hub datasets pandas protobuf pyahocorasick 'pyonmttok>=1.38.1,<2' pyyaml rapidfuzz rich sacrebleu "
        "safetensors six 'subword-nmt>=0.3.7' tensorboard tokenizers uvicorn waitress pydantic torch-optimi "
        "aiohttp requests",
        "{venv}/bin/pip install --no-deps eole==0.6.4",
    )

    def trainings(self, model: str) -> list[Training]:
        """Training with batches of similar lengths from the whole corpus."""
        config = self.config(model, self.setting.work / f"eole_{model}", tokens=TOKENS, updates=FOREVER)
        command = [str(self.bin / "eole"), "train", "-config", str(config)]
        return [Training(command, progress_of, self.setting.work / f"train_eole_{model}.log")]

    def fitted(self, model: str) -> Path:
        """The last checkpoint."""
        return self.setting.work / f"eole_fit_{model.upper()}" / f"step_{FIT_UPDATES}"

    def fit(self, model: str) -> list[str]:
        """Training of the model for translation."""
        config = self.config(model, self.fitted(model).parent, tokens=FIT_TOKENS, updates=FIT_UPDATES)
        return [str(self.bin / "eole"), "train", "-config", str(config)]

    def translations(self, job: Job) -> list[Translating]:
        """Translation by `eole predict`."""
        batch = 1 if job.one_by_one else SENTENCES_PER_BATCH
        command = [
            self.bin / "eole", "predict", "-model_path", self.fitted(job.model), "-src", self.text(job.source),
            "-output", job.output, "-beam_size", job.beam, "-batch_size", batch, "-batch_type", "sents",
            "-max_length", MAX_TOKENS, "-max_length_ratio", 0, "-compute_dtype", "fp32",
        ]  # fmt: skip
        return [Translating(list(map(str, command)), job.output, pieces=True, note=NO_CAP)]

    def starts(self) -> list[Start]:
        """The help."""
        return [Start("help", "eole --help", [str(self.bin / "eole"), "--help"])]
