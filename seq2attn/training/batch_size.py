"""The largest batch that the memory of a GPU holds: `training.batch.tokens: fit`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from seq2attn.data.collate import make_batch
from seq2attn.data.corpus import Corpus
from seq2attn.training.auto_settings import MIN_UPDATES
from seq2attn.training.config import TrainingConfig
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.gradient_accumulation import autocast, run_if_memory_fits
from seq2attn.training.loss import TrainingLoss
from seq2attn.training.memory_check import reserve_optimizer_memory

FIRST = 1024
"""Tokens that are tried first."""
SAFETY_MARGIN = 0.8
"""The share of what was found to fit that is used: memory comes in pieces, and batches differ in shape."""
MAX_ROWS = 2**16 - 1
"""Rows of a batch beyond which kernels of attention cannot be launched."""


def find_max_tokens(
    config: TrainingConfig,
    objective: TrainingLoss,
    optimizer: torch.optim.Optimizer,
    corpus: Corpus,
    world: DistributedContext,
) -> int:
    """How many tokens of a batch the GPU's memory holds with gradients and the optimizer's state.

    It is tried with copies of one pair, in the precision of the training, and leaves as many updates per epoch as
    `auto` does. All processes get the number of the smallest GPU.
    """
    widths = corpus.lengths.max(axis=1) + 1
    by_width = np.argsort(widths, kind="stable")
    per_epoch = int(widths.sum()) // (MIN_UPDATES * config.batch.gradient_accumulation * world.size)

    def learn(pair: int, rows: int) -> bool:
        batch = make_batch(corpus, np.full(rows, pair), packed=config.batch.padding_free).to(world.device)
        with autocast(config.precision, world.device):
            loss = objective(batch)
        loss.loss.backward()
        return True

    def holds(tokens: int) -> bool:
        for pair in (by_width[len(by_width) // 2], by_width[-1]):  # the longest needs most for attention
            rows = max(1, tokens // int(widths[pair]))
            found = run_if_memory_fits(partial(learn, int(pair), rows)) if rows <= MAX_ROWS else None
            objective.zero_grad(set_to_none=True)
            if world.device.type == "cuda":
                torch.cuda.empty_cache()
            if found is None:
                return False
        return True

    reserve = run_if_memory_fits(lambda: reserve_optimizer_memory(objective, optimizer))
    found = FIRST if reserve is None else largest_that_fits(holds, max(FIRST, int(per_epoch / SAFETY_MARGIN)))
    del reserve
    return min(world.all_gather(found))


def largest_that_fits(holds: Callable[[int], bool], limit: int) -> int:
    """The most that `holds`, to a sixteenth, less a margin; at least what is tried first, and `limit` at most."""
    fits = FIRST
    while 2 * fits <= limit and holds(2 * fits):
        fits *= 2
    step = fits // 2
    while step >= fits // 16:
        if fits + step <= limit and holds(fits + step):
            fits += step
        step //= 2
    return max(FIRST, int(fits * SAFETY_MARGIN))
