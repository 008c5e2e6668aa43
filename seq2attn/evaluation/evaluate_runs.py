"""The work of `seq2attn evaluate`: one or more runs, or an ensemble, on the same test sets."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from seq2attn.config.load import with_options
from seq2attn.data.fingerprint import file_digest
from seq2attn.errors import UserError
from seq2attn.evaluation.evaluate import (
    DEFAULT_EVALUATION,
    EvaluationSet,
    SetResult,
    evaluate_run,
    load_with_origin,
    read_sets,
    test_sets,
    write_report,
)
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.load import DEFAULT_OPTIONS, load_experiment, load_translator, with_paths
from seq2attn.inference.reranking import RerankRun
from seq2attn.io.terminal import plural, print_warnings
from seq2attn.metrics.sacrebleu_metrics import LengthBucket, length_table, score_table
from seq2attn.metrics.significance import paired_scores
from seq2attn.options import TranslationOptions
from seq2attn.options.runs import EvaluateOptions
from seq2attn.visualization.attention import select_map


@dataclass(frozen=True)
class RunResults:
    """The results of each run on the same test sets, by the name of the run."""

    sets: Sequence[EvaluationSet]
    results: Mapping[str, Sequence[SetResult]]
    reports: Mapping[str, Any]

    @property
    def by_label(self) -> dict[str, SetResult]:
        """The results by the name of the set, and of the run if there are several; set by set."""
        labelled = {}
        for results in zip(*self.results.values(), strict=True):
            for run, result in zip(self.results, results, strict=True):
                labelled[result.name if len(self.results) == 1 else f"{result.name} {run}"] = result
        return labelled

    def __str__(self) -> str:
        """Scores with their signatures, BLEU by source length, decoding speed, and significance of differences."""
        sets: dict[str, dict[str, Sequence[LengthBucket]]] = {}
        for label, result in self.by_label.items():
            if any(score.name == "BLEU" for score in result.scores):
                sets.setdefault(result.name, {})[label] = result.by_length
        speeds = (
            f"{label}: {plural(result.sentences, 'sentence')} in {result.seconds:.1f} s,"
            f" {result.sentences_per_second:.1f} sentences/s, {result.num_tokens / result.seconds:.0f} tokens/s"
            + (f"; glossary: {result.glossary}" if result.glossary else "")
            for label, result in self.by_label.items()
        )
        scores = score_table({label: result.scores for label, result in self.by_label.items()})
        differences = "\n".join(self._differences())
        return "\n\n".join([scores, *map(length_table, sets.values()), "\n".join(speeds), *filter(None, [differences])])

    def _differences(self) -> Iterator[str]:
        """The difference in BLEU of each run from the first on each test set, with its p-value; a line each."""
        for index, test in enumerate(self.sets):
            systems = {run: results[index].translations for run, results in self.results.items()}
            if len(systems) == 1 or "bleu" not in test.metrics.names:
                continue
            (scores,) = paired_scores(test.metrics, systems, test.references, ["bleu"]).values()
            (first, baseline), *others = scores.items()
            for run, score in others:
                p = "below BLEU 1"
                if score.p_value is not None:
                    p = f"p = {score.p_value:.3f} (paired bootstrap; one seed)"
                yield f"{test.name}: {run} {score.value - baseline.value:+.2f} BLEU against {first}, {p}"


def evaluate(
    *runs: Path | str,
    options: TranslationOptions = DEFAULT_OPTIONS,
    evaluation: EvaluateOptions = DEFAULT_EVALUATION,
) -> RunResults:
    """The results of runs on the test sets of all of them, with the metrics of the first; their reports are written.

    Raises UserError for options that exclude each other, for test sets that differ, and for a tag unknown to a run.
    """
    source = None if evaluation.source is None else Path(evaluation.source)
    evaluation = replace(evaluation, source=source, references=[*map(Path, evaluation.references)])
    if options.ensemble and len(runs) > 1:
        raise UserError("``ensemble`` adds runs to one; give one RUN_DIR")
    metrics = "metrics", evaluation.metrics or None
    scoring = {"evaluation.metrics": metrics, "evaluation.tokenize": ("tokenize", evaluation.tokenize)}
    options = replace(with_paths(options), overrides=with_options(options.overrides, scoring))
    sections = "search", "evaluation", "data.test"
    folders = {run: RunDirectory(Path(run)) for run in runs}
    experiments = {run: load_experiment(folder, options, sections) for run, folder in folders.items()}
    sets = test_sets([*experiments.values()], evaluation.source, evaluation.references, evaluation.tag)
    for folder, corpus in product(folders.values(), sets.values()):
        folder.load_tokenizers().source.check_tag(corpus.tag)
    tests = read_sets(sets, experiments[runs[0]].evaluation)
    results, reports = dict[str, list[SetResult]](), dict[str, Any]()
    for run, experiment in experiments.items():
        results[str(run)], reports[str(run)] = evaluate_run_directory(
            folders[run], experiment, tests, options, evaluation
        )
    return RunResults(tests, results, reports)


def evaluate_run_directory(
    run: RunDirectory,
    experiment: ExperimentConfig,
    tests: Sequence[EvaluationSet],
    options: TranslationOptions,
    evaluation: EvaluateOptions = DEFAULT_EVALUATION,
) -> tuple[list[SetResult], dict[str, Any]]:
    """The results of a run or ensemble, and their report; each set is written, and its warnings are printed, at once.

    Raises UserError for attention that the model lacks, and for lines without finite log-probabilities.
    """
    translator, origin = load_with_origin(
        [run, *map(RunDirectory, options.ensemble)], partial(load_translator, run, experiment, options)
    )
    if evaluation.attention:
        select_map(translator.attention_weights("", ""))
    # An exported model is loaded by its description, before translating is timed.
    engine = ", ".join([translator.engine.description, *_settings(options)])
    for line in dict.fromkeys(test.metrics.note for test in tests if test.metrics.note):
        print(line, file=sys.stderr)
    results, report, sets = list[SetResult](), dict[str, Any](), dict[str, Any]()
    for result in evaluate_run(run, translator, tests, evaluation):
        print_warnings(result.warnings)
        report = write_report(run, origin, result, translator.search, engine)
        results.append(result)
        sets |= report["sets"]
    return results, {**report, "sets": sets}


def _settings(options: TranslationOptions) -> Iterator[str]:
    """Settings that change translations, beside the search and the engine, for reports."""
    if options.replace_unk:
        yield "unknown words replaced"
    yield from map(str, RerankRun.all_of(options))
    if options.to:
        yield f"to {options.to}"
    if options.glossary:
        yield f"glossary {options.glossary} (SHA-256 {file_digest(options.glossary)[:8]})"
