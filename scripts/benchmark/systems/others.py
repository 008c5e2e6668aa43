"""Joey NMT and fairseq, each by its own commands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from benchmark.setting import FIT_TOKENS, FIT_UPDATES, FOREVER, MOST_WORDS, SENTENCES_A_BATCH, TOKENS
from benchmark.systems.base import Job, Progress, System, Training, Translating

JOEY_REPORT = re.compile(r"Step:\s+(\d+),.*Tokens per Sec:\s+(\d+)")
FAIRSEQ_REPORT = re.compile(r"wpb=([\d.]+).*?num_updates=(\d+)")


def joey_progress(line: str) -> Progress | None:
    """Target tokens a second since its last report."""
    found = JOEY_REPORT.search(line)
    return Progress(int(found[1]), rate=float(found[2])) if found else None


class FairseqProgress:
    """`wps` is a mean of the epoch so far; updates times `wpb`, the mean target tokens of a batch, is not."""

    def __init__(self) -> None:
        self.update, self.words = 0, 0.0

    def __call__(self, line: str) -> Progress | None:
        """A line of its simple log."""
        found = FAIRSEQ_REPORT.search(line.replace(" ", "").replace(",", " "))
        if found is None:
            return None
        update = int(found[2])
        self.words += float(found[1]) * (update - self.update)
        self.update = update
        return Progress(update, words=self.words)


@dataclass(frozen=True)
class JoeyNMT(System):
    """Joey NMT 2.3. It makes batches without regard to length."""

    name: ClassVar[str] = "joeynmt"
    title: ClassVar[str] = "Joey NMT"
    packages: ClassVar[tuple[str, ...]] = ("joeynmt", "torch")
    install: ClassVar[tuple[str, ...]] = ("{venv}/bin/pip install torch==2.13.0 joeynmt importlib_metadata",)

    def trainings(self, model: str) -> list[Training]:
        """`joeynmt train`"""
        config = self._config(model, self.setting.work / f"joey_{model}", TOKENS, FOREVER)
        log = self.setting.work / f"train_joey_{model}.log"
        return [Training(self._command("train", config, "--skip-test"), joey_progress, log, note="random batches")]

    def fitted(self, model: str) -> Path:
        """A checkpoint."""
        return self.setting.work / f"joey_fit_{model.upper()}" / f"{FIT_UPDATES}.ckpt"

    def fit(self, model: str) -> list[str]:
        """For translation."""
        config = self._config(model, self.fitted(model).parent, FIT_TOKENS, FIT_UPDATES)
        return self._command("train", config, "--skip-test")

    def translations(self, job: Job) -> list[Translating]:
        """`joeynmt translate` reads standard input and writes a file."""
        folder, batch = self.fitted(job.model).parent, 1 if job.one_by_one else SENTENCES_A_BATCH
        config = self._config(job.model, folder, FIT_TOKENS, FIT_UPDATES, job.beam, batch)
        command = self._command("translate", config, "--output-path", str(job.output))
        return [Translating(command, job.output, pieces=True, stdin=self.text(job.source))]

    def _command(self, verb: str, config: Path, *options: str) -> list[str]:
        return [str(self.python), "-m", "joeynmt", verb, str(config), *options]

    def _config(self, model: str, folder: Path, tokens: int, updates: int, beam: int = 1, batch: int = 1) -> Path:
        values = {"beam": beam, "batch": batch, "most": MOST_WORDS}
        return self.config(model, folder, tokens=tokens, updates=updates, **values)


@dataclass(frozen=True)
class Fairseq(System):
    """fairseq 0.12 in its package for later Pythons. It has no GRU; its LSTM's attention is the dot product."""

    name: ClassVar[str] = "fairseq"
    title: ClassVar[str] = "fairseq"
    packages: ClassVar[tuple[str, ...]] = ("fairseq-fixed", "torch")
    install: ClassVar[tuple[str, ...]] = (
        "{venv}/bin/pip install torch==2.13.0 cython cffi 'setuptools<70' wheel ninja 'numpy<2' hydra-core omegaconf "
        "regex sacrebleu tqdm bitarray scikit-learn packaging tensorboardX",
        "{venv}/bin/pip install --no-build-isolation --no-deps fairseq-fixed",
    )

    def trainings(self, model: str) -> list[Training]:
        """Its text is made binary the first time."""
        common, own = self.options(model, tokens=TOKENS, updates=FOREVER)
        if own is None:
            return []
        words = f"{own} {common}".split()
        command = [str(self.bin / "fairseq-train"), str(self._binary()), *words]
        log = self.setting.work / f"train_fairseq_{model}.log"
        return [Training(command, FairseqProgress(), log)]

    def _binary(self) -> Path:
        folder = self.setting.data / "fairseq"
        if not folder.is_dir():
            import subprocess

            dictionary = self.setting.data / "dict.fairseq.txt"
            command = [
                self.bin / "fairseq-preprocess", "-s", "de", "-t", "en", "--trainpref", self.setting.data / "train.bpe",
                "--validpref", self.setting.data / "val50.bpe", "--destdir", folder, "--srcdict", dictionary,
                "--tgtdict", dictionary, "--workers", 1,
            ]  # fmt: skip
            subprocess.run(list(map(str, command)), env=self.setting.environment(), check=True)
        return folder
