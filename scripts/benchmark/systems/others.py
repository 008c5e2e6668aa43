"""Joey NMT and fairseq."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from benchmark.setting import FIT_TOKENS, FIT_UPDATES, FOREVER, MAX_TOKENS, SENTENCES_PER_BATCH, TOKENS
from benchmark.systems.base import Job, Progress, System, Training, Translating

JOEY_REPORT = re.compile(r"Step:\s+(\d+),.*Tokens per Sec:\s+(\d+)")
FAIRSEQ_REPORT = re.compile(r"wpb=([\d.]+).*?num_updates=(\d+)")


def joey_progress(line: str) -> Progress | None:
    """Progress in its log: target tokens per second since the last report."""
    match = JOEY_REPORT.search(line)
    return Progress(int(match[1]), tokens_per_second=float(match[2])) if match else None


class FairseqProgress:
    """Progress in its log, by updates times `wpb` (target tokens per batch): `wps` is a mean over the epoch."""

    def __init__(self) -> None:
        self.update, self.num_tokens = 0, 0.0

    def __call__(self, line: str) -> Progress | None:
        """Parse a line."""
        match = FAIRSEQ_REPORT.search(line.replace(" ", "").replace(",", " "))
        if match is None:
            return None
        update = int(match[2])
        self.num_tokens += float(match[1]) * (update - self.update)
        self.update = update
        return Progress(update, num_tokens=self.num_tokens)


@dataclass(frozen=True)
class JoeyNMT(System):
    """Joey NMT 2.3, with random batches."""

    name: ClassVar[str] = "joeynmt"
    on_gpu: ClassVar[bool] = False
    title: ClassVar[str] = "Joey NMT"
    packages: ClassVar[tuple[str, ...]] = ("joeynmt", "torch")
    install: ClassVar[tuple[str, ...]] = ("{venv}/bin/pip install torch==2.13.0 joeynmt importlib_metadata",)

    def trainings(self, model: str) -> list[Training]:
        """Training by `joeynmt train`."""
        config = self._config(model, self.setting.work / f"joey_{model}", TOKENS, FOREVER)
        log = self.setting.work / f"train_joey_{model}.log"
        return [Training(self._command("train", config, "--skip-test"), joey_progress, log, note="random batches")]

    def fitted(self, model: str) -> Path:
        """The last checkpoint."""
        return self.setting.work / f"joey_fit_{model.upper()}" / f"{FIT_UPDATES}.ckpt"

    def fit(self, model: str) -> list[str]:
        """Training of the model for translation."""
        config = self._config(model, self.fitted(model).parent, FIT_TOKENS, FIT_UPDATES)
        return self._command("train", config, "--skip-test")

    def translations(self, job: Job) -> list[Translating]:
        """Translation by `joeynmt translate`, from standard input."""
        folder, batch = self.fitted(job.model).parent, 1 if job.one_by_one else SENTENCES_PER_BATCH
        config = self._config(job.model, folder, FIT_TOKENS, FIT_UPDATES, job.beam, batch)
        # Its --output-path fails in version 2.3 after the translation.
        command = ["bash", "-c", 'exec "$@" > "$0"', str(job.output), *self._command("translate", config)]
        return [Translating(command, job.output, pieces=True, stdin=self.text(job.source))]

    def _command(self, verb: str, config: Path, *options: str) -> list[str]:
        return [str(self.python), "-m", "joeynmt", verb, str(config), *options]

    def _config(self, model: str, folder: Path, tokens: int, updates: int, beam: int = 1, batch: int = 1) -> Path:
        values = {"beam": beam, "batch": batch, "most": MAX_TOKENS}
        return self.config(model, folder, tokens=tokens, updates=updates, **values)


@dataclass(frozen=True)
class Fairseq(System):
    """fairseq 0.12, packaged for later Pythons, without GRU; its LSTM has dot-product attention."""

    name: ClassVar[str] = "fairseq"
    on_gpu: ClassVar[bool] = False
    title: ClassVar[str] = "fairseq"
    packages: ClassVar[tuple[str, ...]] = ("fairseq-fixed", "torch")
    install: ClassVar[tuple[str, ...]] = (
        "{venv}/bin/pip install torch==2.13.0 cython cffi 'setuptools<70' wheel ninja 'numpy<2' hydra-core omegaconf "
        "regex sacrebleu tqdm bitarray scikit-learn packaging tensorboardX",
        "{venv}/bin/pip install --no-build-isolation --no-deps fairseq-fixed",
    )

    def trainings(self, model: str) -> list[Training]:
        """Training by `fairseq-train`; its binary text is made at the first call."""
        common, specific = self.options(model, tokens=TOKENS, updates=FOREVER)
        if specific is None:
            return []
        arguments = f"{specific} {common}".split()
        command = [str(self.bin / "fairseq-train"), str(self._binary()), *arguments]
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
