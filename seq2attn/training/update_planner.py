"""What each update of an epoch learns from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seq2attn.data.batch_planner import Indices, plan_batches
from seq2attn.training.config import TrainingConfig
from seq2attn.training.distributed import DistributedContext

UpdateBatches = list[Indices]
"""The rows of its parts; each goes through the model by itself, and their gradients add up."""


def plan_updates(
    lengths: NDArray[np.int64], config: TrainingConfig, world: DistributedContext, *, epoch: int
) -> list[UpdateBatches]:
    """The updates of an epoch for this process: a function of its arguments alone. `lengths` is [pairs, 2]."""
    part = config.batch.micro_batch_size(world.device)
    parts = plan_batches(lengths, tokens=part, seed=config.seed, epoch=epoch, rank=world.rank, world=world.size)
    of_each = config.batch.num_micro_batches(world.device) * config.batch.gradient_accumulation
    return [parts[start : start + of_each] for start in range(0, len(parts), of_each)]
