"""Scores of a run on test sets, with a report of each set in the run directory.

evaluation/NAME.json    scores, the origin of the weights, and SHA-256 of source, references and translations
evaluation/NAME.txt     the translations
evaluation/ensemble/    the same of an ensemble, in its first run
"""

from __future__ import annotations

import hashlib
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from seq2attn.data.inspection import DataReport, inspect_pairs, load_hashes
from seq2attn.data.readers import CorpusConfig, PlainTextConfig, check_regular, read_pairs, read_references
from seq2attn.errors import RunError, UserError
from seq2attn.experiment.evaluation_config import EvaluationConfig
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.glossary import TermCounts
from seq2attn.inference.input_checks import InputChecker, check_finite
from seq2attn.inference.translation import Translation, translation_record
from seq2attn.inference.translator import Translator
from seq2attn.io.files import read_bytes, read_object, write_bytes, write_json
from seq2attn.io.lock import lock_directory
from seq2attn.io.terminal import name_options
from seq2attn.metrics.sacrebleu_metrics import LengthBucket, Metrics, Score, bleu_by_length
from seq2attn.metrics.translation_metric import References
from seq2attn.options.runs import EvaluateOptions
from seq2attn.search.search_config import SearchConfig

ENSEMBLE = "ensemble"
"""Folder of the reports of an ensemble, and their key for the origin of its weights."""
AVERAGED = "averaged checkpoints"
"""A setting of translations: the number of checkpoints whose mean the weights are."""
LOCK_TIMEOUT = 60.0
"""Seconds to wait for another command that writes its reports."""
DEFAULT_EVALUATION = EvaluateOptions()


@dataclass(frozen=True)
class EvaluationSet:
    """The text of a test set, with the metrics for its references."""

    name: str
    pairs: Sequence[tuple[str, str]]
    references: References
    metrics: Metrics
    tag: str | None = None  # before each source

    @classmethod
    def read(cls, name: str, corpus: CorpusConfig, evaluation: EvaluationConfig) -> EvaluationSet:
        """The test set of a corpus. Raises DataError for text that cannot be used."""
        pairs = [pair.text for pair in read_pairs(corpus)]
        references = read_references(corpus, [target for _, target in pairs])
        metrics = evaluation.build(*references)
        return cls(name, pairs, references, metrics, corpus.tag)

    @property
    def sources(self) -> list[str]:
        """The lines to translate."""
        return [source for source, _ in self.pairs]

    def bleu_by_length(self, translations: Sequence[str]) -> list[LengthBucket]:
        """BLEU of translations by the length of the source without its tag, which is no word of it."""
        tag = "" if self.tag is None else f"<{self.tag}> "
        sources = [source.removeprefix(tag) for source in self.sources]
        return bleu_by_length(self.metrics, sources, translations, self.references)

    @property
    def digests(self) -> Digests:
        """Digests that identify the set, independent of its name."""
        return Digests(text_digest(self.sources), tuple(map(text_digest, self.references)))


@dataclass(frozen=True)
class Digests:
    """SHA-256 of the text of a test set, with a line feed after each line."""

    source: str
    references: tuple[str, ...]


@dataclass(frozen=True)
class SetResult:
    """Scores and translations of one test set."""

    name: str
    digests: Digests
    sentences: int
    scores: tuple[Score, ...]
    by_length: tuple[LengthBucket, ...]
    seconds: float  # of translating, the model already loaded
    num_tokens: int  # of the translations
    translations: tuple[str, ...]
    note: str | None  # on the choice of the tokenizer of BLEU
    warnings: tuple[str, ...]  # about the set and its scores
    glossary: TermCounts | None = None
    records: tuple[dict[str, Any], ...] = ()  # each line with tokens and log-probabilities, if requested

    @property
    def sentences_per_second(self) -> float:
        """Speed of translating."""
        return self.sentences / self.seconds

    def score(self, name: str) -> Score:
        """The score of a metric."""
        return next(score for score in self.scores if score.name == name)


def text_digest(lines: Iterable[str]) -> str:
    """SHA-256 of lines, as hex."""
    return hashlib.sha256(_as_bytes(lines)).hexdigest()


def _as_bytes(lines: Iterable[str]) -> bytes:
    return "".join(line + "\n" for line in lines).encode()


def test_sets(
    experiments: Sequence[ExperimentConfig], source: Path | None, references: Sequence[Path], tag: str | None = None
) -> dict[str, CorpusConfig]:
    """The test sets of all configs, or one of `source`, with a tag before each line, and `references`.

    Raises UserError when source or references are missing, when there is no test set, or when the configs have
    different ones of one name.
    """
    if (source is None) != (not references):
        raise UserError("give ``source`` and ``references`` together")
    if source is not None:
        # Its report must not replace that of a set of the config.
        name = source.name + "_" * any(source.name in experiment.data.test for experiment in experiments)
        first, *others = references
        return {name: PlainTextConfig.of_files(source, first, references=others, tag=tag)}
    if tag is not None:
        raise UserError("``tag`` is for ``source``; the test sets of the config have their own: `data.test.NAME.tag`")
    sets: dict[str, CorpusConfig] = {}
    for name, corpus in (item for experiment in experiments for item in experiment.data.test.items()):
        check_regular(corpus)
        if sets.setdefault(name, corpus) != corpus:
            raise UserError(
                f"the runs have different test sets with the name `{name}`; give ``source`` and ``references``"
            )
    if not sets:
        raise UserError("the config has no `data.test`; give ``source`` and ``references``")
    return sets


def read_sets(sets: Mapping[str, CorpusConfig], evaluation: EvaluationConfig) -> list[EvaluationSet]:
    """The text of test sets. Raises DataError for text that cannot be used."""
    return [EvaluationSet.read(name, corpus, evaluation) for name, corpus in sets.items()]


def load_with_origin(runs: Sequence[RunDirectory], load: Callable[[], Translator]) -> tuple[Translator, dict[str, Any]]:
    """A translator of a run or of an ensemble, and the origin of its weights.

    It is loaded again if a training replaced the weights meanwhile.
    """
    while True:
        origins = [run.weights_origin() if run.weights_path.is_file() else {} for run in runs]
        translator = load()
        if [run.weights_origin() for run in runs] == origins:
            break
    if len(runs) == 1:
        return translator, origins[0]
    members = [{"run_dir": str(run.folder), **origin} for run, origin in zip(runs, origins, strict=True)]
    return translator, {ENSEMBLE: members}


def evaluate_run(
    run: RunDirectory,
    translator: Translator,
    tests: Sequence[EvaluationSet],
    options: EvaluateOptions = DEFAULT_EVALUATION,
) -> Iterator[SetResult]:
    """The result of each test set in turn; with `records` of all lines if `options` ask for JSON."""
    hashes, report = load_hashes(run.folder), DataReport.load(run.folder)
    for test in tests:
        checker = InputChecker()
        started = time.monotonic()
        output = list(translator.translate_iterable(test.sources, num_hypotheses=1, checker=checker))
        seconds = time.monotonic() - started
        check_finite(checker.not_finite, f"{test.name}: ")
        if options.attention:
            output = [replace(one, attention_weights=translator.translation_weights(one)) for one in output]
        translations = tuple(translation.text for translation in output)
        corpus_report = inspect_pairs(test.pairs, translator.source, translator.target, hashes)
        line_warnings = (*checker.line_warnings(), *test.metrics.warnings())
        yield SetResult(
            name=test.name,
            digests=test.digests,
            sentences=len(test.pairs),
            scores=tuple(test.metrics.scores(translations, test.references)),
            by_length=tuple(test.bleu_by_length(translations)),
            seconds=seconds,
            num_tokens=sum(len(translation.tokens) for translation in output),
            translations=translations,
            note=test.metrics.note,
            warnings=(
                *corpus_report.warnings(test.name, report.train if report else None),
                *(f"{test.name}: {name_options(warning)}" for warning in line_warnings),
            ),
            glossary=translator.glossary.count_met(test.sources, translations) if translator.glossary else None,
            records=_records(translator, test.sources, output) if options.as_json else (),
        )


def _records(
    translator: Translator, sources: Sequence[str], translations: Sequence[Translation]
) -> tuple[dict[str, Any], ...]:
    log_probs = translator.token_log_probs(translations)
    lines = zip(sources, translations, log_probs, strict=True)
    return tuple(translation_record(source, translation, [each]) for source, translation, each in lines)


def read_translations(
    run: RunDirectory, test: EvaluationSet, arguments: Sequence[str]
) -> tuple[list[str], dict[str, Any]]:
    """The translations of a test set that `evaluate` wrote to a run, and the settings that they were made with.

    `arguments` are those of `evaluate` that make them, for messages.

    Raises RunError if there are none, if they are of another text or other weights, or if they were changed.
    """
    folder = run.folder / "evaluation"
    path, report = folder / f"{test.name}.txt", folder / f"{test.name}.json"
    fix = f"make them: {shlex.join(['seq2attn', 'evaluate', *arguments])}"
    if not report.is_file() or not path.is_file():
        raise RunError(f"{run.folder}: has no translations of `{test.name}`; {fix}")
    text = read_bytes(path, fix, path.stat().st_size)
    lines = text.decode(errors="replace").removesuffix("\n").split("\n")  # a first U+FEFF is text
    content = read_object(report, fix)
    expected = {"source": test.digests.source, "references": list(test.digests.references)}
    if content.get("digests") != {**expected, "translations": text_digest(lines)}:
        raise RunError(f"{path}: is a translation of another text than `{test.name}`, or was changed; {fix}")
    if run.weights_path.is_file() and content.get("model") != run.weights_origin():
        raise RunError(f"{path}: is a translation by other weights than those of the run; {fix}")
    origin, search = content.get("model"), content.get("search")
    settings = {f"search.{key}": value for key, value in search.items()} if isinstance(search, dict) else {}
    checkpoints = origin.get("checkpoints") if isinstance(origin, dict) else None
    num_checkpoints = len(checkpoints) if isinstance(checkpoints, list) else None
    return lines, {"engine": content.get("engine"), AVERAGED: num_checkpoints, **settings}


def write_report(
    run: RunDirectory, origin: Mapping[str, Any], result: SetResult, search: SearchConfig, engine: str
) -> dict[str, Any]:
    """Write translations and the report of a set to the run, and return the report, with the records of lines.

    `origin` is that of the weights, `engine` the description of the engine.
    """
    shared = {"model": dict(origin), "engine": engine, "search": search.model_dump(mode="json")}
    content = asdict(replace(result, records=()))
    del content["translations"], content["name"], content["note"], content["records"]
    content["digests"]["translations"] = text_digest(result.translations)
    content["sentences_per_second"] = result.sentences_per_second
    folder, advice = run.folder / "evaluation" / (ENSEMBLE if ENSEMBLE in origin else ""), "evaluate a copy of the run"
    # The lock keeps report and translations of one command together.
    with lock_directory(folder, "evaluation.lock", advice=advice, timeout=LOCK_TIMEOUT):
        write_bytes(folder / f"{result.name}.txt", _as_bytes(result.translations))
        write_json(folder / f"{result.name}.json", {"set": result.name, **shared, **content})
    records = {"records": result.records} if result.records else {}
    return {**shared, "sets": {result.name: {**content, **records}}}
