"""Search over many sources: batches of similar lengths under a token budget, results in input order."""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import torch

from seq2attn.data.collate import batch_by_length
from seq2attn.errors import UserError
from seq2attn.models.ensemble import SearchModel
from seq2attn.nn.decoding_state import map_tensors, select_rows
from seq2attn.nn.device import is_oom_error
from seq2attn.search.captured_step import CapturedStep
from seq2attn.search.constraints import Constraints, LengthLimits
from seq2attn.search.coverage_penalty import with_coverage
from seq2attn.search.search import Hypotheses, Scoring, SearchObserver, search
from seq2attn.search.search_config import SearchConfig
from seq2attn.search.strategies import Sampling
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD

TokenIds: TypeAlias = Sequence[Sequence[int]]
"""Token ids of several sentences, without BOS and EOS."""
Phrases: TypeAlias = Sequence[TokenIds]
"""Token ids of phrases, for each of several sentences."""
MIN_BATCH_TOKENS = 1024
"""Smallest batch in tokens; batches are made small enough for two per thread, so that threads end at the same time."""
MAX_BATCH_TOKENS = 8192
"""Source tokens of a batch, with padding, times the hypotheses of each sentence, on a CPU."""
MAX_GPU_BATCH_TOKENS, GPU_BYTES_PER_TOKEN = 2**18, 2**17
"""Those on a GPU, and the memory that each needs: a step takes as long for few sentences as for thousands."""


@dataclass(frozen=True)
class Hypothesis:
    """A translation of one source."""

    tokens: tuple[int, ...]  # without EOS
    score: float  # with the length penalty
    log_prob: float
    text: str | None = None  # if unknown words were replaced; else that of the tokens


@dataclass(frozen=True)
class SearchExecution:
    """Execution of a search, without an effect on what it finds."""

    cuda_graphs: bool = False  # capture the step of each batch
    observer: SearchObserver | None = None  # of the steps of each batch


NOT_FINITE = (
    "the model gives no finite log-probabilities; its weights are too large, as after a training that diverged, or in"
    " an import from float16; take other weights"
)
NAN_HYPOTHESIS = Hypothesis((), math.nan, math.nan)
"""The only hypothesis of a source for which the model gives no finite log-probabilities."""


def default_batch_tokens(device: torch.device) -> int:
    """Source tokens of a batch on a device, times the hypotheses of each sentence; on a GPU by its memory."""
    if device.type != "cuda":
        return MAX_BATCH_TOKENS
    memory = torch.cuda.get_device_properties(device).total_memory
    return min(MAX_GPU_BATCH_TOKENS, max(MAX_BATCH_TOKENS, memory // GPU_BYTES_PER_TOKEN))


def translate_ids(
    model: SearchModel,
    sources: TokenIds,
    config: SearchConfig,
    *,
    budget: int,
    prefixes: TokenIds = (),
    phrases: Phrases = (),
    execution: SearchExecution = SearchExecution(),
) -> list[list[Hypothesis]]:
    """Hypotheses of each source (ids without EOS), best first, in the order of the sources.

    A batch has at most `budget` source tokens, with padding, times the beam size. An empty source has one empty
    hypothesis, and one without finite log-probabilities `NAN_HYPOTHESIS`. Hypotheses begin with the prefix, and those
    of a beam contain the phrases.
    """
    prefixes, phrases = prefixes or [()] * len(sources), phrases or [()] * len(sources)
    strategy, observer = config.build(model.device), execution.observer
    weight = config.coverage_penalty
    model, end_score = with_coverage(model, weight) if weight else (model, None)
    scoring = Scoring(config.lengths.build_penalty(), end_score)

    @torch.inference_mode()
    def translate(rows: list[int]) -> list[list[Hypothesis]]:
        limits = config.lengths.limits(torch.tensor([len(sources[row]) for row in rows]))
        limits = limits.with_prefixes([prefixes[row] for row in rows]).with_phrases([phrases[row] for row in rows])
        memory, state, limits = _encode(model, [sources[row] for row in rows], limits, strategy.groups)
        step = CapturedStep(model.step) if execution.cuda_graphs else model.step
        rules = Constraints.from_limits(limits, BOS, EOS, (PAD, BOS), config.no_repeat_ngram_size)
        best = search(step, state, memory, strategy=strategy, constraints=rules, scoring=scoring, observer=observer)
        return to_hypotheses(best, strategy.groups)

    is_parallel = model.device.type == "cpu" and not isinstance(strategy, Sampling)  # sampling uses one generator
    batches = _plan_batches(sources, config.num_hypotheses, budget, is_parallel=is_parallel)
    results = map_parallel(translate, batches) if is_parallel else map(translate, batches)
    output = [[Hypothesis((), 0.0, 0.0)] for _ in sources]
    for rows, batch in zip(batches, results, strict=True):
        for row, hypotheses in zip(rows, batch, strict=True):
            output[row] = hypotheses
    return output


def _encode(model: SearchModel, sources: TokenIds, limits: LengthLimits, groups: int) -> tuple[Any, Any, LengthLimits]:
    """Memory, state and limits of each row of a search: a sentence, or one of its `groups` of hypotheses."""
    memory, state = model.encode_sources(sources)
    sentences = torch.arange(len(sources), device=model.device).repeat_interleave(groups)
    parts = memory, state, map_tensors(lambda tensor: tensor.to(model.device), limits)
    return parts if groups == 1 else select_rows(parts, sentences)


def _plan_batches(sources: TokenIds, num_hypotheses: int, budget: int, *, is_parallel: bool) -> list[list[int]]:
    """Rows of each batch, at least two for each thread if the text is long enough."""
    threads = torch.get_num_threads()
    if is_parallel and threads > 1:
        num_tokens = num_hypotheses * sum(len(source) + 1 for source in sources)
        budget = min(budget, max(MIN_BATCH_TOKENS, num_tokens // (2 * threads)))
    return batch_by_length(sources, max(1, budget // num_hypotheses))


def to_hypotheses(best: Hypotheses, groups: int) -> list[list[Hypothesis]]:
    """Hypotheses as Python values; of the `groups` of a sentence together, each once and best first."""
    tensors = (best.tokens.tolist(), best.scores.tolist(), best.log_probs.tolist())
    rows = [
        [
            Hypothesis(tuple(ids[: ids.index(EOS)]), score, log_prob)
            for ids, score, log_prob in zip(*sentence, strict=True)
            if score != float("-inf")
        ]
        for sentence in zip(*tensors, strict=True)
    ]
    if groups > 1:
        sentences = (
            {hypothesis.tokens: hypothesis for row in parts for hypothesis in row}
            for parts in zip(*(rows[group::groups] for group in range(groups)), strict=True)
        )
        rows = [sorted(sentence.values(), key=lambda hypothesis: -hypothesis.score) for sentence in sentences]
    return [*map(require_finite, rows)]


def require_finite(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """The hypotheses of a source; `NAN_HYPOTHESIS` if there are none, or a score or log-probability is not finite."""
    values = [value for hypothesis in hypotheses for value in (hypothesis.score, hypothesis.log_prob)]
    return hypotheses if values and all(map(math.isfinite, values)) else [NAN_HYPOTHESIS]


Batch = TypeVar("Batch")
Result = TypeVar("Result")


def retry_with_smaller_batches(fn: Callable[..., Result], budget: int, min_budget: int = 1) -> tuple[Result, int]:
    """`fn(budget=budget)`, with the budget halved while it does not fit in memory, and the budget that does.

    Raises the out-of-memory error of a budget of at most `min_budget`.
    """
    while True:
        try:
            return fn(budget=budget), budget
        except (RuntimeError, MemoryError, UserError) as error:
            if not is_oom_error(error) or budget <= min_budget:
                raise
        budget //= 2  # outside of the except clause, whose error refers to tensors


def map_parallel(fn: Callable[[Batch], Result], batches: Sequence[Batch]) -> Iterator[Result]:
    """`fn` of each batch, in their order, on as many threads as PyTorch may use.

    The tensors of a search step are too small to be split among threads: two batches on one core each are faster than
    one after the other on two.
    """
    threads = torch.get_num_threads()
    if min(threads, len(batches)) < 2 or torch.is_autocast_enabled("cpu"):  # autocast is a setting of the thread
        yield from map(fn, batches)
        return
    try:
        with ThreadPoolExecutor(min(threads, len(batches)), initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield from pool.map(fn, batches)
    finally:
        torch.set_num_threads(threads)  # the workers have changed it for new threads
