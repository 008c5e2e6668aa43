"""The largest batch that the memory of a card holds: `training.batch.tokens: fit`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from seq2attn.data.collate import batch_of
from seq2attn.data.corpus import Corpus
from seq2attn.training.auto_settings import MIN_UPDATES
from seq2attn.training.config import TrainingConfig
from seq2attn.training.distributed import World
from seq2attn.training.gradient_accumulation import autocast, fitted
from seq2attn.training.loss import Objective
from seq2attn.training.memory_check import remembered

FIRST = 1024
"""Tokens that are tried first."""
MARGIN = 0.8
"""The share of what was found to fit that is used: memory comes in pieces, and batches differ in shape."""
MAX_ROWS = 2**16 - 1
"""Rows of a batch beyond which kernels of attention cannot be launched."""


def most_tokens(
    config: TrainingConfig,
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    corpus: Corpus,
    world: World,
) -> int:
    """How many tokens of a batch the card's memory holds with gradients and the optimizer's state.

    It is tried with copies of one pair, in the precision of the training, and leaves as many updates per epoch as
    `auto` does. All processes get the number of the smallest card.
    """
    widths = corpus.lengths.max(axis=1) + 1
    by_width = np.argsort(widths, kind="stable")
    per_epoch = int(widths.sum()) // (MIN_UPDATES * config.batch.accumulate * world.size)

    def learn(pair: int, rows: int) -> bool:
        batch = batch_of(corpus, np.full(rows, pair), packed=config.batch.packed).to(world.device)
        with autocast(config.precision, world.device):
            loss = objective(batch)
        loss.objective.backward()
        return True

    def holds(tokens: int) -> bool:
        for pair in (by_width[len(by_width) // 2], by_width[-1]):  # the longest needs most for attention
            rows = max(1, tokens // int(widths[pair]))
            found = fitted(partial(learn, int(pair), rows)) if rows <= MAX_ROWS else None
            objective.zero_grad(set_to_none=True)
            if world.device.type == "cuda":
                torch.cuda.empty_cache()
            if found is None:
                return False
        return True

    reserve = fitted(lambda: remembered(objective, optimizer))
    found = FIRST if reserve is None else most(holds, max(FIRST, int(per_epoch / MARGIN)))
    del reserve
    return min(world.gather(found))


def most(holds: Callable[[int], bool], limit: int) -> int:
    """The most that `holds`, to a sixteenth, less a margin; at least what is tried first, and `limit` at most."""
    fits = FIRST
    while 2 * fits <= limit and holds(2 * fits):
        fits *= 2
    step = fits // 2
    while step >= fits // 16:
        if fits + step <= limit and holds(fits + step):
            fits += step
        step //= 2
    return max(FIRST, int(fits * MARGIN))
