"""The work of `seq2attn evaluate`: one or more runs, or an ensemble, on the same test sets."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from seq2attn.data.fingerprint import file_digest
from seq2attn.errors import UserError
from seq2attn.evaluation.evaluate import (
    EvaluationSet,
    SetResult,
    evaluate_run,
    load_with_origin,
    read_sets,
    test_sets,
    write_reports,
)
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.engines.base import check_engine_supports
from seq2attn.inference.engines.native import SearchPrecision
from seq2attn.inference.ensemble import load
from seq2attn.inference.glossary import load_glossary
from seq2attn.inference.reranking import RerankRun, load_rerankers
from seq2attn.io.terminal import print_warnings
from seq2attn.metrics.sacrebleu_metrics import LengthBucket, length_table, score_table
from seq2attn.metrics.significance import compare_systems
from seq2attn.search.search_config import LongInputs, SearchConfig, check_size, resolve_search


@dataclass(frozen=True)
class EvaluateOptions:
    """Options of the command line."""

    source: Path | None
    references: tuple[Path, ...]
    metrics: tuple[str, ...]
    tokenize: str | None
    tag: str | None
    to: str | None
    beam: int | None
    greedy: bool
    mbr: int | None
    replace_unk: bool
    glossary: Path | None
    long_inputs: LongInputs | None
    ensemble: tuple[Path, ...]
    rerank: tuple[RerankRun, ...]
    engine: str
    export_dir: Path | None
    device: str
    precision: SearchPrecision
    batch_tokens: int | None
    overrides: tuple[str, ...]

    def load_experiment(self, run: RunDirectory) -> ExperimentConfig:
        """The config of a run with these options. Raises UserError if it does not know the tag."""
        metrics = [f"evaluation.metrics=[{','.join(self.metrics)}]"] if self.metrics else []
        tokenize = [f"evaluation.tokenize={self.tokenize}"] if self.tokenize else []
        experiment = run.load_config([*self.overrides, *metrics, *tokenize], ["search", "evaluation", "data.test"])
        run.load_tokenizers().source.check_tag(self.tag)
        return experiment

    def search_config(self, run: RunDirectory, experiment: ExperimentConfig) -> SearchConfig:
        """The search of a run with these options."""
        search = resolve_search(
            experiment.search,
            beam=self.beam,
            greedy=self.greedy,
            mbr=self.mbr,
            long_inputs=self.long_inputs,
            overrides=self.overrides,
        )
        if self.beam is None and self.mbr is None:
            check_size(search, run.config_path, self.overrides)
        return search


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
            f"{label}: {result.sentences} sentences in {result.seconds:.1f} s,"
            f" {result.sentences / result.seconds:.1f} sentences/s, {result.num_tokens / result.seconds:.0f} tokens/s"
            + (f"; glossary: {result.glossary}" if result.glossary else "")
            for label, result in self.by_label.items()
        )
        scores = score_table({label: result.scores for label, result in self.by_label.items()})
        differences = "\n".join(self._differences())
        return "\n\n".join([scores, *map(length_table, sets.values()), "\n".join(speeds), *filter(None, [differences])])

    def _differences(self) -> Iterator[str]:
        """The difference in BLEU of each run from the first on each test set, with its p-value; a line each."""
        for index, test in enumerate(self.sets):
            (first, baseline), *others = ((run, sets[index].translations) for run, sets in self.results.items())
            if not others or "bleu" not in test.metrics.names:
                continue
            for run, compared in compare_systems(0, baseline, dict(others), test.metrics, test.references).items():
                p = "below BLEU 1"
                if compared.p_value is not None:
                    p = f"p = {compared.p_value:.3f} (paired bootstrap; one seed)"
                yield f"{test.name}: {run} {compared.difference:+.2f} BLEU against {first}, {p}"


def evaluate_runs(runs: Sequence[Path], options: EvaluateOptions) -> RunResults:
    """The results of runs on the test sets of all of them, with the metrics of the first; their reports are written.

    Raises UserError for options that exclude each other, for test sets that differ, and for a tag unknown to a run.
    """
    if options.ensemble and len(runs) > 1:
        raise UserError("--ensemble adds runs to one; give one RUN_DIR")
    experiments = {run: options.load_experiment(RunDirectory(run)) for run in runs}
    sets = test_sets([*experiments.values()], options.source, options.references, options.tag)
    for run, corpus in product(runs, sets.values()):
        RunDirectory(run).load_tokenizers().source.check_tag(corpus.tag)
    searches = {run: options.search_config(RunDirectory(run), experiment) for run, experiment in experiments.items()}
    tests = read_sets(sets, experiments[runs[0]].evaluation)
    results, reports = dict[str, list[SetResult]](), dict[str, Any]()
    for run, search in searches.items():
        results[str(run)], reports[str(run)] = _evaluate(RunDirectory(run), search, tests, options)
    return RunResults(tests, results, reports)


def _evaluate(
    run: RunDirectory, search: SearchConfig, tests: Sequence[EvaluationSet], options: EvaluateOptions
) -> tuple[list[SetResult], dict[str, Any]]:
    """The results of a run or ensemble, and their report, which is written; warnings are printed."""
    load_translator = partial(
        load,
        run.folder,
        options.device,
        ensemble=options.ensemble,
        engine=options.engine,
        export_dir=options.export_dir,
        precision=options.precision,
        replace_unk=options.replace_unk,
    )
    translator, origin = load_with_origin([run, *map(RunDirectory, options.ensemble)], load_translator)
    tokenizers = translator.tokenizers
    translator.rerankers = load_rerankers(options.rerank, run, tokenizers, search, options.device, to=options.to)
    if options.to is not None:
        translator = translator.with_target_language(options.to)
    tokenizers = translator.tokenizers
    translator.glossary = load_glossary(options.glossary, tokenizers, search, replace_unk=options.replace_unk)
    translator.max_batch_tokens = options.batch_tokens or translator.max_batch_tokens
    check_engine_supports(translator.engine, search, run, options.overrides)
    results = evaluate_run(run, translator, tests, search)
    for line in dict.fromkeys(result.note for result in results if result.note):
        print(line, file=sys.stderr)
    print_warnings(warning for result in results for warning in result.warnings)
    named = [f"--to {options.to}"] * bool(options.to)
    if options.glossary:
        named.append(f"--glossary {options.glossary} (SHA-256 {file_digest(options.glossary)[:8]})")
    options_of_call = [*["unknown words replaced"] * options.replace_unk, *map(str, options.rerank), *named]
    engine = ", ".join([translator.engine.description, *options_of_call])
    return results, write_reports(run, origin, results, search, engine)
