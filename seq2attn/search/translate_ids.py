"""Search over many sources: alike in length together, under a budget of tokens, answered in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import torch

from seq2attn.data.batch_planner import batch_by_length
from seq2attn.data.collate import collate_source
from seq2attn.models import Seq2Seq
from seq2attn.search.config import SearchConfig
from seq2attn.search.search import Hypotheses, search
from seq2attn.search.strategies import Sampling
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD

MIN_BATCH_TOKENS = 1024
"""To how many tokens a batch may shrink for every thread to have two, so that none waits long for another's last."""


@dataclass(frozen=True)
class Hypothesis:
    """One translation of one source."""

    tokens: tuple[int, ...]  # without the end
    score: float  # comparable across lengths
    log_prob: float


def translate_ids(
    model: Seq2Seq,
    sources: Sequence[Sequence[int]],
    config: SearchConfig,
    *,
    budget: int,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of each source (ids without the end), best first, in the order of the sources.

    At most `budget` source tokens, padding counted, times the hypotheses of each, are searched together. An empty
    source has one hypothesis, which is empty. The hypotheses of a source begin with its prefix.
    """
    choose = config.build(model.device)

    @torch.inference_mode()
    def translate(rows: list[int]) -> list[list[Hypothesis]]:
        source, mask = collate_source([sources[row] for row in rows])
        limits = config.lengths.limits(mask.sum(1) - 1)
        if prefixes is not None:
            limits = limits.with_prefixes([prefixes[row] for row in rows])
        device = model.device
        memory, state = model.encode(source.to(device), mask.to(device))
        found = search(
            model.step,
            state,
            memory,
            choose=choose,
            limits=limits.to(device),
            bos=BOS,
            eos=EOS,
            never=(PAD, BOS),
            lengths=config.lengths.build_penalty(),
        )
        return to_hypotheses(found)

    answers = [[Hypothesis((), 0.0, 0.0)] for _ in sources]
    alone = model.device.type != "cpu" or isinstance(choose, Sampling)  # which draws from one generator
    if not alone and torch.get_num_threads() > 1:
        every = choose.beam_size * sum(len(source) + 1 for source in sources)
        budget = min(budget, max(MIN_BATCH_TOKENS, every // (2 * torch.get_num_threads())))
    batches = batch_by_length(sources, max(1, budget // choose.beam_size))
    answered = map(translate, batches) if alone else map_parallel(translate, batches)
    for rows, found in zip(batches, answered, strict=True):
        for row, hypotheses in zip(rows, found, strict=True):
            answers[row] = hypotheses
    return answers


def to_hypotheses(found: Hypotheses) -> list[list[Hypothesis]]:
    """What was found, as Python values."""
    tokens, scores, log_probs = found.tokens.tolist(), found.scores.tolist(), found.log_probs.tolist()
    return [
        [
            Hypothesis(tuple(words[: words.index(EOS)]), score, log_prob)
            for words, score, log_prob in zip(*sentence, strict=True)
            if score != float("-inf")
        ]
        for sentence in zip(tokens, scores, log_probs, strict=True)
    ]


Work = TypeVar("Work")
Done = TypeVar("Done")


def map_parallel(fn: Callable[[Work], Done], batches: Sequence[Work]) -> Iterator[Done]:
    """`fn` of each batch, in their order, on as many threads as PyTorch may use.

    The tensors of a search step are too small to be worth cutting up among them: two batches on a processor each are
    done sooner than one after the other on both.
    """
    threads = torch.get_num_threads()
    if min(threads, len(batches)) < 2 or torch.is_autocast_enabled("cpu"):  # autocasting is a thread's own
        yield from map(fn, batches)
        return
    try:
        with ThreadPoolExecutor(
            min(threads, len(batches)), initializer=torch.set_num_threads, initargs=(1,)
        ) as pool:
            yield from pool.map(fn, batches)
    finally:
        torch.set_num_threads(threads)  # for threads that are yet to come
