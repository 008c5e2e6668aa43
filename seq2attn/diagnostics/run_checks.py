"""The work of `seq2attn doctor`: loading of a run and sentences, and all checks."""

import copy
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from tqdm import tqdm

from seq2attn.attention.align_functions import has_discrete_alignment
from seq2attn.data.corpus import read_text_pairs
from seq2attn.data.prepared_data import DEV
from seq2attn.diagnostics.checks import (
    LOG_PROB_TOLERANCE,
    MAX_BATCH_TOKENS,
    Check,
    Sentence,
    Subject,
    check_batching,
    check_cache,
    check_padding,
    check_scores,
)
from seq2attn.errors import DataError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.inference.engines.source_limit import max_source_length
from seq2attn.inference.load import load_translator
from seq2attn.inference.search_options import MAX_SEARCH_TOKENS
from seq2attn.io.tables import format_table
from seq2attn.io.text_lines import read_lines
from seq2attn.options import TranslationOptions
from seq2attn.search.search_config import GreedyConfig, SampleConfig
from seq2attn.tokenizers.base import add_tag

CHECKS: dict[str, Check] = {
    "batch equals single": check_batching,
    "cached equals uncached": check_cache,
    "padded equals unpadded": check_padding,
    "scores equal forced scores": check_scores,
}
"""Checks by their names in the table."""


@dataclass(frozen=True)
class CheckResult:
    """Largest difference of a check and the number of its sentence, or the error that ended the check."""

    check: str
    max_difference: float
    sentence: int | None
    seconds: float
    error: str = ""

    @property
    def passed(self) -> bool:
        """True if all differences are small."""
        return not self.error and self.max_difference <= LOG_PROB_TOLERANCE


def load_subject(run: RunDirectory, count: int, file: Path | None, device: str, tag: str | None = None) -> Subject:
    """The model of a run, with the first `count` non-empty sentences of its dev set, or of a file with `tag`.

    Longer ones than the translator takes are cut. Sources of a file get a greedy translation. Greedy search replaces
    sampling and a search that may take hours, and a model with discrete alignments is checked in double precision.

    Raises UserError when the run or the file cannot be used.
    """
    translator = load_translator(run, run.load_config(), TranslationOptions(device=device))
    loaded = run.load(translator.model.device)
    model, (source, target) = loaded.model, loaded.tokenizers
    source.check_tag(tag)
    search_model, search = translator.model, translator.search
    if has_discrete_alignment(model):
        model = search_model = copy.deepcopy(model).double()
    greedy = GreedyConfig(lengths=search.lengths)
    is_large = search.num_hypotheses * search.lengths.max_length > MAX_SEARCH_TOKENS
    path, texts = _texts(run, file)
    longest = max_source_length(run.load_config())
    numbered = (
        (number, tuple(ids), translation)
        for number, (text, translation) in enumerate(texts, start=1)
        if (ids := source.encode(add_tag(text, tag))[:longest])
    )
    sentences = list(islice(numbered, count))
    if not sentences:
        raise DataError(f"{path}: has no line to check the model with; give ``input_file=FILE``")
    if file is None:
        targets = [tuple(target.encode(translation)[:longest]) for _, _, translation in sentences]
    else:
        sources = [ids for _, ids, _ in sentences]
        output = NativeEngine(model).translate(sources, greedy, budget=MAX_BATCH_TOKENS)
        targets = [best.tokens for (best,) in output]
    return Subject(
        model,
        search_model,
        greedy if isinstance(search, SampleConfig) or is_large else search,
        tuple(Sentence(number, ids, tokens) for (number, ids, _), tokens in zip(sentences, targets, strict=True)),
        str(path),
    )


def run_checks(subject: Subject, checks: dict[str, Check] = CHECKS) -> list[CheckResult]:
    """The result of every check. A check that raises an error has failed; the others continue."""
    return [_run(name, check, subject) for name, check in tqdm(checks.items(), "check", leave=False, disable=None)]


@torch.no_grad()
def _run(name: str, check: Check, subject: Subject) -> CheckResult:
    start = time.perf_counter()
    largest, sentence, error = 0.0, None, ""
    try:
        for number, difference in check(subject):
            difference = math.inf if math.isnan(difference) else difference
            if sentence is None or difference > largest:
                largest, sentence = difference, number
    except Exception as exception:  # any error of a custom component or a device
        error = f"{type(exception).__name__}: {exception}"
    return CheckResult(name, largest, sentence, time.perf_counter() - start, error)


def format_check_table(results: Sequence[CheckResult]) -> str:
    """A line per check, and the errors below."""
    rows = [("check", "", "largest", "allowed", "sentence", "time")]
    for result in results:
        outcome = "pass" if result.passed else "FAIL"
        largest = "" if result.error else f"{result.max_difference:.1e}"
        sentence = "" if result.sentence is None else str(result.sentence)
        rows.append((result.check, outcome, largest, f"{LOG_PROB_TOLERANCE:.0e}", sentence, f"{result.seconds:.1f} s"))
    errors = [f"\n{result.check}: {result.error}" for result in results if result.error]
    return "\n".join([format_table(rows, num_text_columns=2), *errors])


def _texts(run: RunDirectory, file: Path | None) -> tuple[Path, Iterator[tuple[str, str]]]:
    """The file of the sentences, and pairs of sources and translations, which are empty for a file of sources."""
    if file is not None:
        return file, ((line, "") for line in read_lines(file))
    dev = (run.folder / DEV).with_suffix(".jsonl")
    if not dev.is_file():
        raise DataError(f"{dev}: is missing; give ``input_file=FILE`` with sentences in the source language")
    return dev, read_text_pairs(dev)
