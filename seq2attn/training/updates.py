"""What each update of an epoch learns from, and how much of it a card holds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from seq2attn.data.batches import Indices, batch_of, plan
from seq2attn.data.corpus import Corpus
from seq2attn.training.config import TrainingConfig
from seq2attn.training.distributed import World
from seq2attn.training.objective import Objective

FIRST = 1024
"""Tokens that are tried first."""
MARGIN = 0.8
"""The share of what was found to fit that is used: memory comes in pieces, and batches differ in shape."""

Update = list[Indices]
"""The rows of its parts; each goes through the model by itself, and their gradients add up."""


def updates_of(
    lengths: NDArray[np.int64], config: TrainingConfig, world: World, *, epoch: int
) -> list[Update]:
    """The updates of an epoch for this process: a function of its arguments alone. `lengths` is [pairs, 2]."""
    part = config.batch.part(world.device)
    parts = plan(lengths, tokens=part, seed=config.seed, epoch=epoch, rank=world.rank, world=world.size)
    of_each = config.batch.parts(world.device) * config.batch.accumulate
    return [parts[start : start + of_each] for start in range(0, len(parts), of_each)]


def most_tokens(objective: Objective, corpus: Corpus, world: World, *, packed: bool = False) -> int:
    """How many tokens of a batch the card's memory holds, gradients and all: tried with copies of one pair.

    All processes get the number of the smallest card.
    """
    widths = corpus.lengths.max(axis=1) + 1
    by_width = np.argsort(widths, kind="stable")

    def holds(tokens: int) -> bool:
        try:
            for pair in (by_width[len(by_width) // 2], by_width[-1]):  # the longest needs most for attention
                copies = np.full(max(1, tokens // int(widths[pair])), pair)
                objective(batch_of(corpus, copies, packed=packed).to(world.device)).objective.backward()
        except torch.OutOfMemoryError:
            return False
        finally:
            objective.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()
        return True

    return min(world.gather(most(holds)))


def most(holds: Callable[[int], bool]) -> int:
    """The most that `holds`, to a sixteenth, less a margin; at least what is tried first."""
    fits = FIRST
    while holds(2 * fits):
        fits *= 2
    step = fits // 2
    while step >= fits // 16:
        fits, step = (fits + step if holds(fits + step) else fits), step // 2
    return max(FIRST, int(fits * MARGIN))
