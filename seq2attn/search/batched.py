"""Search over many sources: alike in length together, under a budget of tokens, answered in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from seq2attn.data.batches import collate, collate_source
from seq2attn.model import Seq2Seq
from seq2attn.search.choose import Sample
from seq2attn.search.config import SearchConfig
from seq2attn.search.search import Hypotheses, search
from seq2attn.search.side_by_side import side_by_side
from seq2attn.text.vocabulary import BOS, EOS, PAD

LEAST = 1024
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
            lengths=config.lengths.rule(),
        )
        return read_out(found)

    answers = [[Hypothesis((), 0.0, 0.0)] for _ in sources]
    alone = model.device.type != "cpu" or isinstance(choose, Sample)  # which draws from one generator
    if not alone and torch.get_num_threads() > 1:
        every = choose.width * sum(len(source) + 1 for source in sources)
        budget = min(budget, max(LEAST, every // (2 * torch.get_num_threads())))
    batches = by_length(sources, max(1, budget // choose.width))
    answered = map(translate, batches) if alone else side_by_side(translate, batches)
    for rows, found in zip(batches, answered, strict=True):
        for row, hypotheses in zip(rows, found, strict=True):
            answers[row] = hypotheses
    return answers


def by_length(sources: Sequence[Sequence[int]], budget: int) -> list[list[int]]:
    """Which sources go together: the longest first, rows times width within the budget; the empty in none."""
    order = sorted((i for i, s in enumerate(sources) if len(s)), key=lambda i: -len(sources[i]))
    batches: list[list[int]] = []
    for index in order:
        width = len(sources[batches[-1][0]]) + 1 if batches else 0
        if not batches or (len(batches[-1]) + 1) * width > budget:
            batches.append([])
        batches[-1].append(index)
    return batches


def read_out(found: Hypotheses) -> list[list[Hypothesis]]:
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


@torch.no_grad()
def cross_attention_weights(
    model: Seq2Seq, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], *, budget: int = 4096
) -> list[NDArray[np.float32] | None]:
    """Attention weights of given translations, by forced decoding; None for a model without attention.

    Pairs of ids without ends -> [layers, heads, target + end, source + end] of each. Rows times the longer side are at
    most `budget` at a time.
    """
    found: list[NDArray[np.float32] | None] = [None] * len(pairs)
    for rows in by_length([range(max(len(source), len(target), 1)) for source, target in pairs], budget):
        batch = collate([pairs[row] for row in rows]).to(model.device)
        weights = model(batch.source, batch.source_mask, batch.target, need_weights=True).weights
        if weights is not None:
            for row, one in zip(rows, weights.float().cpu().numpy(), strict=True):
                source, target = pairs[row]
                found[row] = one[:, :, : len(target) + 1, : len(source) + 1]
    return found
