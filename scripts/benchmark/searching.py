"""Translation of the test set by each system's command, in turn, and of one sentence at a time."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmark.process import QUIET, Process, wait_until_idle
from benchmark.records import Record
from benchmark.setting import TEST, Setting, shell_line
from benchmark.systems import System
from benchmark.systems.base import Job, Translating
from benchmark.text import detokenize
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
    medians: list[float] = field(default_factory=list)  # milliseconds of a sentence, one at a time
    means: list[float] = field(default_factory=list)
    peak: int = 0
    error: str = ""

    def measure(self, timing: Timing, setting: Setting) -> None:
        """Measure one round. The time of one sentence is measured too, to subtract start-up and loading."""
        if self.all.times is not None:
            self._run(self.all, timing, setting)
            times = json.loads(self.all.times.read_text("utf-8"))
            self.medians.append(statistics.median(times))
            self.means.append(statistics.mean(times))
            return
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
        if self.medians:
            return self.medians
        start = min(self.ones)
        if self.wholes and min(self.wholes) <= start:
            raise FailedError("too few sentences: start-up takes as long")
        return [1000 * (whole - start) / (self.sentences - 1) for whole in self.wholes]

    def _run(self, job: Translating, timing: Timing, setting: Setting) -> float:
        """Seconds of an undisturbed run."""
        for _ in range(MAX_ATTEMPTS):
            if not timing.busy_ok:
                wait_until_idle()
            process = Process(job.command, job.output.with_suffix(".log"), setting.environment(), job.stdin)
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
    translators = _translators(setting, systems, model, case, TEST, one_by_one=False)
    _measure_in_turn(translators, timing, setting, f"{model} {case}")
    return [
        _record("search", model, case, t, tuple(1000 / figure for figure in t.figures), "sentences/s")
        for t in _reports(translators, setting, TEST)
    ]


def measure_latency(setting: Setting, systems: Sequence[System], model: str, case: str, timing: Timing) -> list[Record]:
    """Milliseconds per sentence, one at a time: the median of each round if the system reports times, else the mean."""
    translators = _translators(setting, systems, model, case, "few", one_by_one=True)
    _measure_in_turn(translators, timing, setting, f"{model} {case}, one by one")
    return [_record("latency", model, case, t, tuple(t.figures), "ms") for t in _reports(translators, setting, TEST)]


def _translators(
    setting: Setting, systems: Sequence[System], model: str, case: str, part: str, *, one_by_one: bool
) -> list[Translator]:
    sentences = len((setting.data / f"{part}.bpe.de").read_text("utf-8").split("\n")) - 1
    translators = []
    for system in systems:
        stem = f"{system.name}-{model}-{case.replace(' ', '')}{'-one-by-one' if one_by_one else ''}"
        jobs = [
            Job(model, CASES[case], source, setting.work / f"{stem}{suffix}.txt", one_by_one)
            for source, suffix in (("one", "-one"), (part, ""))
        ]
        for one, every in zip(*map(system.translations, jobs), strict=True):
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


@dataclass(frozen=True)
class TranslatorReport:
    """A translator with facts about its translations."""

    translator: Translator
    facts: dict[str, Any]

    @property
    def figures(self) -> list[float]:
        """Milliseconds per sentence of each round."""
        return [] if self.translator.error else self.translator.figures


def _reports(translators: Sequence[Translator], setting: Setting, part: str) -> list[TranslatorReport]:
    """Lengths, BLEU and the share of translations that equal ours."""
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor(model_proto=(setting.data / "pieces.model").read_bytes())
    ours: list[str] | None = None
    reports = []
    for translator in translators:
        facts: dict[str, Any] = {}
        if translator.wholes or translator.medians:
            texts, counts = translations(translator.all, processor)
            if ours is None and translator.system.name == "ours":
                ours = texts
            facts = {
                "mean_tokens": round(statistics.mean(counts), 2),
                "most_tokens": max(counts),
                "bleu": bleu(texts, setting.corpus / f"{part}.en"),
                "peak_mib": round(translator.peak / 2**20),
            }
            if translator.means:
                facts["mean_ms"] = round(statistics.median(translator.means), 2)
            if ours is not None and len(texts) == len(ours):
                same = sum(a == b for a, b in zip(ours, texts, strict=True))
                facts["same_as_ours"] = round(same / len(texts), 4)
        reports.append(TranslatorReport(translator, facts))
    return reports


def translations(done: Translating, processor: Any) -> tuple[list[str], list[int]]:
    """The texts, and their numbers of subword tokens."""
    lines = done.output.read_text("utf-8").split("\n")[:-1]
    if not done.pieces:
        return lines, [len(processor.encode(line)) for line in lines]
    return [detokenize(line) for line in lines], [len(line.split()) for line in lines]


def bleu(texts: Sequence[str], references: Path) -> float:
    """BLEU by sacreBLEU, cased, of the first references."""
    from sacrebleu import corpus_bleu

    lines = references.read_text("utf-8").split("\n")[: len(texts)]
    return round(corpus_bleu(list(texts), [lines]).score, 2)


def _record(kind: str, model: str, case: str, done: TranslatorReport, rounds: tuple[float, ...], unit: str) -> Record:
    translator = done.translator
    return Record(
        kind,
        model,
        case,
        translator.system.name,
        translator.system.title,
        translator.all.variant,
        unit,
        tuple(round(figure, 2) for figure in rounds),
        done.facts,
        translator.all.note,
        translator.error,
    )
