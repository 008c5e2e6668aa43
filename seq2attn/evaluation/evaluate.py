"""How good a run is on held-out text."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from seq2attn.data.inspection.overlap import Hashes, load_hashes
from seq2attn.data.inspection.report import DataReport, test_set_warnings
from seq2attn.data.inspection.statistics import CorpusReport, inspect_pairs
from seq2attn.data.read import AlignedConfig, CorpusConfig, check_regular, read_pairs
from seq2attn.errors import UserError
from seq2attn.evaluation.metrics import LengthBucket, Score, bleu_by_length, scores
from seq2attn.experiment import Experiment
from seq2attn.noticed import Noticed
from seq2attn.run import Run
from seq2attn.search.config import SearchConfig
from seq2attn.text.files import write_bytes, write_json
from seq2attn.translator import Translator


@dataclass(frozen=True)
class Result:
    """What was found on one test set."""

    name: str
    sentences: int
    scores: tuple[Score, ...]
    by_length: tuple[LengthBucket, ...]
    seconds: float  # of translating, the model already loaded
    words: int  # target tokens made
    translations: tuple[str, ...]
    concerns: tuple[str, ...]  # what should be known of the set before its scores are believed


@dataclass(frozen=True)
class Learnt:
    """What is known of the text that a run learnt from."""

    train: CorpusReport | None
    hashes: Hashes | None

    @classmethod
    def of(cls, run: Run) -> Learnt:
        """Nothing is known of a run from before that was recorded, and less where its data were moved away."""
        report = DataReport.load(run.folder)
        return cls(report.train if report else None, load_hashes(run.folder))


def test_sets(experiment: Experiment, source: Path | None, reference: Path | None) -> dict[str, CorpusConfig]:
    """The test sets of a config, or the one pair of files that was given.

    Raises UserError when only one of the files was given, or when there is nothing to score.
    """
    if (source is None) != (reference is None):
        raise UserError("give --source and --reference together")
    if source is not None and reference is not None:
        return {source.name: AlignedConfig(kind="aligned", source=source, target=reference)}
    if not experiment.data.test:
        raise UserError("the config has no `data.test`; give --source and --reference")
    for corpus in experiment.data.test.values():
        check_regular(corpus)
    return dict(experiment.data.test)


def evaluate_run(
    translator: Translator,
    sets: Mapping[str, CorpusConfig],
    search: SearchConfig,
    learnt: Learnt | None = None,
) -> list[Result]:
    """Translate and score each test set; all are read before the first is translated.

    `learnt` is what the sets are compared with.
    """
    texts = {name: list(read_pairs(corpus)) for name, corpus in sets.items()}
    learnt = learnt or Learnt(None, None)
    return [_evaluate(translator, name, pairs, search, learnt) for name, pairs in texts.items()]


def _evaluate(
    translator: Translator, name: str, pairs: list[tuple[str, str]], search: SearchConfig, learnt: Learnt
) -> Result:
    sources, references = [source for source, _ in pairs], [reference for _, reference in pairs]
    noticed = Noticed()
    started = time.monotonic()
    found = list(translator.translate_iterable(sources, search, num_hypotheses=1, noticed=noticed))
    seconds = time.monotonic() - started
    translations = tuple(translation.text for translation in found)
    inspected = inspect_pairs(pairs, translator.source, translator.target, learnt.hashes)
    concerns = (
        *test_set_warnings(name, inspected, learnt.train),
        *(f"{name}: {said}" for said in noticed.lengths()),
    )
    return Result(
        name=name,
        sentences=len(pairs),
        scores=tuple(scores(translations, references)),
        by_length=tuple(bleu_by_length(sources, translations, references)),
        seconds=seconds,
        words=sum(len(translation.tokens) for translation in found),
        translations=translations,
        concerns=concerns,
    )


def write_report(
    run: Run, origin: Mapping[str, Any], results: list[Result], search: SearchConfig
) -> dict[str, Any]:
    """Keep the translations and the report in the run; the report. `origin` is the run's when it was loaded."""
    folder = run.folder / "evaluation"
    report: dict[str, Any] = {"model": dict(origin), "search": search.model_dump(mode="json"), "sets": {}}
    for result in results:
        content = asdict(result)
        del content["translations"], content["name"]
        content["sentences_per_second"] = result.sentences / result.seconds
        report["sets"][result.name] = content
        text = "".join(line + "\n" for line in result.translations)
        write_bytes(folder / f"{result.name}.txt", text.encode())
    write_json(folder / "report.json", report)
    return report
