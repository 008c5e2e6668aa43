"""Translation of the test set by each system's command, in turn."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmark.process import QUIET, Process, wait_until_idle
from benchmark.records import Record
from benchmark.setting import TEST, Setting, shell_line
from benchmark.systems import System, Translating
from benchmark.training import Timing, log

LIMIT = 590.0
MAX_ATTEMPTS = 4
STARTUP_RUNS = 2
"""Measurements of the start-up time; the shortest counts."""
CASES = {"greedy": 1, "beam 5": 5}


class FailedError(Exception):
    """A translation that failed."""


@dataclass
class Translator:
    """A translation command of a system, and its measurements."""

    system: System
    one: Translating
    all: Translating
    sentences: int
    ones: list[float] = field(default_factory=list)  # seconds of one sentence
    wholes: list[float] = field(default_factory=list)  # of all sentences
    peak: int = 0
    error: str = ""

    def measure(self, timing: Timing, setting: Setting) -> None:
        """Measure one round. The time of one sentence is measured too, to subtract start-up and loading."""
        if not self.ones:  # files are not cached yet
            self._run(self.one, timing, setting)
        if len(self.ones) < STARTUP_RUNS:
            self.ones.append(self._run(self.one, timing, setting))
        self.wholes.append(self._run(self.all, timing, setting))

    @property
    def figures(self) -> list[float]:
        """Milliseconds per sentence of each round, without the shortest start-up time.

        Raises FailedError when all sentences take no longer than one.
        """
        start = min(self.ones)
        if self.wholes and min(self.wholes) <= start:
            raise FailedError("too few sentences: start-up takes as long")
        return [1000 * (whole - start) / (self.sentences - 1) for whole in self.wholes]

    def _run(self, job: Translating, timing: Timing, setting: Setting) -> float:
        """Seconds of an undisturbed run."""
        for _ in range(MAX_ATTEMPTS):
            if not timing.busy_ok:
                wait_until_idle()
            process = Process(job.command, job.output.with_suffix(".log"), setting.environment())
            try:
                status = process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                raise FailedError(f"took longer than {LIMIT:.0f} s: {shell_line(job.command)}") from None
            seconds = process.age
            if status:
                raise FailedError(f"exit {status}: {process.tail}")
            self.peak = max(self.peak, process.peak)
            if timing.busy_ok or process.others(0.0, seconds) < QUIET:
                return seconds
        raise FailedError(f"disturbed by other processes in {MAX_ATTEMPTS} runs: end them, or give --busy-ok")


def measure_search(setting: Setting, systems: Sequence[System], model: str, case: str, timing: Timing) -> list[Record]:
    """Sentences per second on the whole test set."""
    translators = _translators(setting, systems, model, case)
    _measure_in_turn(translators, timing, setting, f"{model} {case}")
    facts = _facts(translators, setting)
    return [_record(model, case, translator, fact) for translator, fact in zip(translators, facts, strict=True)]


def _translators(setting: Setting, systems: Sequence[System], model: str, case: str) -> list[Translator]:
    sentences = len((setting.data / f"{TEST}.bpe.de").read_text("utf-8").split("\n")) - 1
    setting.logs.mkdir(parents=True, exist_ok=True)
    translators = []
    for system in systems:
        stem = f"{system.name}-{model}-{case.replace(' ', '')}"
        commands = (
            system.translations(model, CASES[case], setting.data / f"{part}.de", setting.logs / f"{stem}{suffix}.txt")
            for part, suffix in (("one", "-one"), (TEST, ""))
        )
        for one, every in zip(*commands, strict=True):
            translator = Translator(system, one, every, sentences)
            if not system.has_model(model):
                translator.error = f"not fitted: python scripts/bench.py fit --model {model}"
            translators.append(translator)
    return translators


def _measure_in_turn(translators: Sequence[Translator], timing: Timing, setting: Setting, title: str) -> None:
    for number in range(timing.rounds):
        for translator in translators:
            if translator.error:
                continue
            try:
                translator.measure(timing, setting)
                message = f"{translator.figures[-1]:.1f} ms a sentence"
            except FailedError as error:
                message = translator.error = str(error)
            label = f"{translator.system.name} {translator.all.variant}".strip()
            log(f"  {title}, round {number + 1}: {label}: {message}")


def _facts(translators: Sequence[Translator], setting: Setting) -> list[dict[str, Any]]:
    """Lengths, BLEU and the share of translations that equal ours, of each translator."""
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor(model_proto=(setting.data / "pieces.model").read_bytes())
    ours: list[str] | None = None
    facts = list[dict[str, Any]]()
    for translator in translators:
        facts.append({})
        if not translator.wholes:
            continue
        texts = translator.all.output.read_text("utf-8").split("\n")[:-1]
        counts = [len(processor.encode(line)) for line in texts]
        if ours is None and translator.system.name == "ours":
            ours = texts
        facts[-1] = {
            "mean_tokens": round(statistics.mean(counts), 2),
            "most_tokens": max(counts),
            "bleu": bleu(texts, setting.corpus / f"{TEST}.en"),
            "peak_mib": round(translator.peak / 2**20),
        }
        if ours is not None and len(texts) == len(ours):
            same = sum(a == b for a, b in zip(ours, texts, strict=True))
            facts[-1]["same_as_ours"] = round(same / len(texts), 4)
    return facts


def bleu(texts: Sequence[str], references: Path) -> float:
    """BLEU by sacreBLEU, cased, of the first references."""
    from sacrebleu import corpus_bleu

    lines = references.read_text("utf-8").split("\n")[: len(texts)]
    return round(corpus_bleu(list(texts), [lines]).score, 2)


def _record(model: str, case: str, translator: Translator, facts: dict[str, Any]) -> Record:
    system, figures = translator.system, [] if translator.error else translator.figures
    return Record(
        "search",
        model,
        case,
        system.name,
        system.title,
        translator.all.variant,
        "sentences/s",
        tuple(round(1000 / figure, 2) for figure in figures),
        facts,
        error=translator.error,
    )
