"""Log-probabilities of given translations, by forced decoding."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from seq2attn.data.readers import PlainTextConfig
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.engines.base import Engine
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.inference.engines.source_limit import model_source_limit
from seq2attn.inference.input_checks import UNTAGGED, enumerate_lines
from seq2attn.io.terminal import plural, print_warnings
from seq2attn.models import Seq2Seq
from seq2attn.models.seq2seq import IdPairs
from seq2attn.nn.device import resolve_device
from seq2attn.options.runs import ScoreOptions
from seq2attn.search.translate_ids import retry_with_smaller_batches
from seq2attn.tokenizers.base import TokenizerPair, add_tag
from seq2attn.tokenizers.normalize import is_blank
from seq2attn.tokenizers.vocabulary import EOS, UNK

WINDOW = 1024
"""Pairs that are scored together."""
MAX_BATCH_TOKENS = 4096
"""Tokens of both sides in a batch, with padding."""


@dataclass(frozen=True)
class ScoredPair:
    """A source and a translation with the log-probabilities of its tokens and of EOS; none if both are empty."""

    source: str
    target: str
    log_prob: float  # log p(target, EOS | source)
    tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]


def token_log_probs(engine: Engine, pairs: IdPairs, max_tokens: int) -> list[list[float]]:
    """Forced decoding in batches of at most `max_tokens`, smaller where memory is too small.

    They are smaller than those of a search: all target tokens of a batch have log-probabilities of the vocabulary.
    """
    budget = min(max_tokens, MAX_BATCH_TOKENS)
    return retry_with_smaller_batches(partial(engine.token_log_probs, pairs), budget)[0]


def score_pairs(
    model: Seq2Seq, tokenizers: TokenizerPair, pairs: Sequence[tuple[str, str]], tag: str | None = None
) -> Iterator[ScoredPair]:
    """The scores of `pairs` in their order, with `tag` before each source that is not empty.

    An empty pair has no tokens and the log-probability 0.
    """
    engine, budget = NativeEngine(model), MAX_BATCH_TOKENS
    for start in range(0, len(pairs), WINDOW):
        window = pairs[start : start + WINDOW]
        ids = [(tokenizers[0].encode(add_tag(source, tag)), tokenizers[1].encode(target)) for source, target in window]
        output, budget = retry_with_smaller_batches(partial(engine.token_log_probs, ids), budget)
        for (source, target), (_, target_ids), log_probs in zip(window, ids, output, strict=True):
            tokens = tokenizers[1].convert_ids_to_tokens([*target_ids, EOS][: len(log_probs)])
            yield ScoredPair(source, target, math.fsum(log_probs), tuple(tokens), tuple(log_probs))


def score(run: Path | str, options: ScoreOptions) -> Iterator[ScoredPair]:
    """The scores of the pairs of two files, one by one; NaN where the model gives no finite log-probabilities.

    Both files are read completely first, so that files of different lengths are refused. Raises DataError.
    """
    loaded = RunDirectory(Path(run)).load(resolve_device(options.device))
    tokenizers = loaded.tokenizers if options.to is None else loaded.tokenizers.translate_into(options.to)
    tokenizers.source.check_tag(options.tag)
    corpus = PlainTextConfig.of_files(options.source, options.target, tag=options.tag)
    pairs = [pair.text for pair in corpus.pairs()]
    print_warnings(_warnings(loaded.experiment, tokenizers, pairs, options.tag))
    return score_pairs(loaded.model, tokenizers, pairs, options.tag)


def _warnings(
    experiment: ExperimentConfig, tokenizers: TokenizerPair, pairs: Sequence[tuple[str, str]], tag: str | None
) -> Iterator[str]:
    """Warnings about log-probabilities that are hard to compare: no tag, long sources, unknown tokens, empty sides."""
    limit = model_source_limit(experiment)
    lines, unknown = defaultdict[str, list[int]](list), 0
    for number, (source, target) in enumerate(pairs, start=1):
        tagged = add_tag(source, tag)
        if tokenizers[0].lacks_tag(tagged):
            lines[UNTAGGED].append(number)
        if is_blank(source) != is_blank(target):
            lines["one side is empty; scored nevertheless"].append(number)
        if len(tokenizers[0].encode(tagged)) > limit.max_tokens:
            lines[f"too many tokens: {limit.reason}; not split for scoring"].append(number)
        unknown += tokenizers[1].encode(target).count(UNK)
    yield from (f"{enumerate_lines(numbers)}: {warning}" for warning, numbers in lines.items())
    if unknown:
        yield f"the target has {plural(unknown, 'unknown token')}, scored as <unk>"
