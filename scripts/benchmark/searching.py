"""Translating the test set: by each system's own command, in turn; and one sentence after the other."""

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
from benchmark.setting import TEST, Setting, shown
from benchmark.systems import System
from benchmark.systems.base import Job, Translating
from benchmark.text import joined
from benchmark.training import Timing, say

LIMIT = 590.0
TRIES = 4
ONES = 2
"""How often start-up is timed; the shorter counts."""
CASES = {"greedy": 1, "beam 5": 5}


class FailedError(Exception):
    """A translation that did not come to its end."""


@dataclass
class Translator:
    """A way in which a system translates, and what was measured of it."""

    system: System
    one: Translating
    all: Translating
    sentences: int
    ones: list[float] = field(default_factory=list)  # seconds for one sentence
    wholes: list[float] = field(default_factory=list)  # and for all
    medians: list[float] = field(default_factory=list)  # milliseconds of a sentence, where they come alone
    means: list[float] = field(default_factory=list)
    peak: int = 0
    error: str = ""

    def turn(self, timing: Timing, setting: Setting) -> None:
        """A round: what each sentence costs beyond the first, so that start-up and loading drop out."""
        if self.all.times is not None:
            self._run(self.all, timing, setting)
            times = json.loads(self.all.times.read_text("utf-8"))
            self.medians.append(statistics.median(times))
            self.means.append(statistics.mean(times))
            return
        if not self.ones:  # the files are not in memory yet
            self._run(self.one, timing, setting)
        if len(self.ones) < ONES:
            self.ones.append(self._run(self.one, timing, setting))
        self.wholes.append(self._run(self.all, timing, setting))

    @property
    def figures(self) -> list[float]:
        """Milliseconds a sentence, a round each; the shortest start-up is the least disturbed.

        Raises FailedError when all sentences took no longer than one.
        """
        if self.medians:
            return self.medians
        start = min(self.ones)
        if self.wholes and min(self.wholes) <= start:
            raise FailedError("too few sentences to be told from start-up")
        return [1000 * (whole - start) / (self.sentences - 1) for whole in self.wholes]

    def _run(self, what: Translating, timing: Timing, setting: Setting) -> float:
        """Seconds, of a run that nothing disturbed."""
        for _ in range(TRIES):
            if not timing.busy_ok:
                wait_until_idle()
            process = Process(what.command, what.output.with_suffix(".log"), setting.environment(), what.stdin)
            try:
                status = process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                raise FailedError(f"took longer than {LIMIT:.0f} s: {shown(what.command)}") from None
            seconds = process.age
            if status:
                raise FailedError(f"exit {status}: {process.tail}")
            self.peak = max(self.peak, process.peak)
            if timing.busy_ok or process.others(0.0, seconds) < QUIET:
                break
        return seconds


def measure_search(setting: Setting, systems: Sequence[System], model: str, case: str, timing: Timing) -> list[Record]:
    """Sentences a second on the whole test set."""
    translators = _translators(setting, systems, model, case, TEST, one_by_one=False)
    _in_turn(translators, timing, setting, f"{model} {case}")
    return [
        _record("search", model, case, t, tuple(1000 / figure for figure in t.figures), "sentences/s")
        for t in _stated(translators, setting, TEST)
    ]


def measure_latency(setting: Setting, systems: Sequence[System], model: str, case: str, timing: Timing) -> list[Record]:
    """Milliseconds for a sentence that comes alone; the median of each round where a system can tell, else the mean."""
    translators = _translators(setting, systems, model, case, "few", one_by_one=True)
    _in_turn(translators, timing, setting, f"{model} {case}, one by one")
    return [_record("latency", model, case, t, tuple(t.figures), "ms") for t in _stated(translators, setting, TEST)]


def _translators(
    setting: Setting, systems: Sequence[System], model: str, case: str, part: str, *, one_by_one: bool
) -> list[Translator]:
    sentences = len((setting.data / f"{part}.bpe.de").read_text("utf-8").split("\n")) - 1
    found = []
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
            found.append(translator)
    return found


def _in_turn(translators: Sequence[Translator], timing: Timing, setting: Setting, what: str) -> None:
    for number in range(timing.rounds):
        for translator in translators:
            if translator.error:
                continue
            told = ""
            try:
                translator.turn(timing, setting)
                told = f"{translator.figures[-1]:.1f} ms a sentence"
            except FailedError as error:
                told = translator.error = str(error)
            label = f"{translator.system.name} {translator.all.variant}".strip()
            say(f"  {what}, round {number + 1}: {label}: {told}")


@dataclass(frozen=True)
class Stated:
    """A translator whose translations have been looked at."""

    translator: Translator
    facts: dict[str, Any]

    @property
    def figures(self) -> list[float]:
        """Milliseconds a sentence, a round each."""
        return [] if self.translator.error else self.translator.figures


def _stated(translators: Sequence[Translator], setting: Setting, part: str) -> list[Stated]:
    """With lengths and BLEU, and how many translations are those of ours."""
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor(model_proto=(setting.data / "pieces.model").read_bytes())
    ours: list[str] | None = None
    stated = []
    for translator in translators:
        facts: dict[str, Any] = {}
        if translator.wholes or translator.medians:
            texts, counts = translations(translator.all, processor)
            if translator.system.name == "ours":
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
        stated.append(Stated(translator, facts))
    return stated


def translations(done: Translating, processor: Any) -> tuple[list[str], list[int]]:
    """The texts, and how many pieces each has."""
    lines = done.output.read_text("utf-8").split("\n")[:-1]
    if not done.pieces:
        return lines, [len(processor.encode(line)) for line in lines]
    return [joined(line) for line in lines], [len(line.split()) for line in lines]


def bleu(texts: Sequence[str], references: Path) -> float:
    """sacreBLEU's, cased, of as many references as there are texts."""
    from sacrebleu import corpus_bleu

    wanted = references.read_text("utf-8").split("\n")[: len(texts)]
    return round(corpus_bleu(list(texts), [wanted]).score, 2)


def _record(kind: str, model: str, case: str, done: Stated, rounds: tuple[float, ...], unit: str) -> Record:
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
