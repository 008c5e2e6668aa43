"""What each update of an epoch learns from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seq2attn.data.batch_planner import Indices, plan
from seq2attn.training.config import TrainingConfig
from seq2attn.training.distributed import World

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
