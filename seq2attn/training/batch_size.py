"""The largest batch that fits in the memory of a GPU: `training.batch.tokens: fit`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from seq2attn.data.collate import make_batch
from seq2attn.data.corpus import Corpus
from seq2attn.nn.linear import autocast
from seq2attn.training.auto_settings import MIN_UPDATES
from seq2attn.training.config import TrainingConfig
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.gradient_accumulation import run_if_memory_fits
from seq2attn.training.loss import TrainingLoss
from seq2attn.training.memory_check import reserve_optimizer_memory

MIN_TOKENS = 1024
"""The smallest candidate, in tokens."""
SAFETY_MARGIN = 0.8
"""Share of the largest candidate that is used: memory is allocated in blocks, and batches differ in shape."""
MAX_ROWS = 2**16 - 1
"""Maximum number of rows for which attention kernels can be launched."""


def find_max_tokens(
    config: TrainingConfig,
    objective: TrainingLoss,
    optimizer: torch.optim.Optimizer,
    corpus: Corpus,
    world: DistributedContext,
) -> int:
    """Maximum number of tokens of a batch that fits in memory with gradients and the optimizer's state.

    Candidates are copies of one pair, in the precision of the training. The result allows as many updates per epoch as
    `auto`. All processes get the number of the smallest GPU.
    """
    widths = corpus.lengths.max(axis=1) + 1
    by_width = np.argsort(widths, kind="stable")
    per_epoch = int(widths.sum()) // (MIN_UPDATES * config.batch.gradient_accumulation * world.size)

    def compute_gradients(pair: int, rows: int) -> bool:
        batch = make_batch(corpus, np.full(rows, pair), packed=config.batch.padding_free).to(world.device)
        with autocast(config.precision, world.device):
            loss = objective(batch)
        loss.loss.backward()
        return True

    def fits(tokens: int) -> bool:
        for pair in (by_width[len(by_width) // 2], by_width[-1]):  # the longest needs most for attention
            rows = max(1, tokens // int(widths[pair]))
            done = run_if_memory_fits(partial(compute_gradients, int(pair), rows)) if rows <= MAX_ROWS else None
            objective.zero_grad(set_to_none=True)
            if world.device.type == "cuda":
                torch.cuda.empty_cache()
            if done is None:
                return False
        return True

    reserved = run_if_memory_fits(lambda: reserve_optimizer_memory(objective, optimizer))
    limit = max(MIN_TOKENS, int(per_epoch / SAFETY_MARGIN))
    tokens = MIN_TOKENS if reserved is None else largest_that_fits(fits, limit)
    del reserved
    return min(world.all_gather(tokens))


def largest_that_fits(fits: Callable[[int], bool], limit: int) -> int:
    """The largest number that `fits`, to a sixteenth, less a margin; from `MIN_TOKENS` to `limit`."""
    largest = MIN_TOKENS
    while 2 * largest <= limit and fits(2 * largest):
        largest *= 2
    step = largest // 2
    while step >= largest // 16:
        if largest + step <= limit and fits(largest + step):
            largest += step
        step //= 2
    return max(MIN_TOKENS, int(largest * SAFETY_MARGIN))
