"""The largest batch is tried first, so that a training that does not fit into memory ends in its first minute."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seq2attn.data.batch_planner import Indices
from seq2attn.data.corpus import Corpus
from seq2attn.errors import UserError
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.gradient_accumulation import MEMORY_HINT, GradientAccumulator, run_if_memory_fits
from seq2attn.training.update_planner import UpdateBatches


def check_memory(
    gradients: GradientAccumulator,
    optimizer: torch.optim.Optimizer,
    corpus: Corpus,
    updates: Sequence[UpdateBatches],
    baseline: float | None,
) -> None:
    """Learn from the largest part, and from that with the longest pair; what is found is thrown away.

    Raises: UserError, in all processes, when one of them has too little memory.
    """
    began, world = time.monotonic(), gradients.world
    parts = [rows for update in updates for rows in update]
    reserve = run_if_memory_fits(lambda: reserve_optimizer_memory(gradients.objective, optimizer))
    failed: Indices | None = parts[0] if reserve is None else None
    for rows in largest_micro_batches(parts, corpus.lengths) if reserve is not None else []:
        (part,) = gradients.make_micro_batches(corpus, [rows])
        if not gradients.fits_in_memory(part, baseline):
            failed = rows
            break
    messages = world.all_gather(None if failed is None else _memory_message(corpus.lengths[failed], failed, world))
    for message in messages:
        if message is not None:
            raise UserError(message)
    if gradients.compiled:
        gradients.reporter.log(f"compiled, and tried the largest batch, in {time.monotonic() - began:.0f} s")


def largest_micro_batches(parts: Sequence[Indices], lengths: NDArray[np.int64]) -> list[Indices]:
    """The part with most tokens, padding counted, and that with the longest pair where it is another."""
    width = [int(lengths[rows].max()) + 1 for rows in parts]
    most = max(range(len(parts)), key=lambda number: (len(parts[number]) * width[number], width[number]))
    longest = max(range(len(parts)), key=lambda number: (width[number], len(parts[number])))
    return [parts[number] for number in dict.fromkeys((most, longest))]


def reserve_optimizer_memory(module: nn.Module, optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """As much memory as the optimizer will ask for at its first step: Adam keeps two numbers a weight, momentum one."""
    if optimizer.state:
        return []
    count = 2 if "momentum" not in optimizer.defaults else int(optimizer.defaults["momentum"] > 0)
    learns = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return [torch.zeros_like(parameter) for parameter in learns for _ in range(count)]


def _memory_message(lengths: NDArray[np.int64], rows: Indices, world: DistributedContext) -> str:
    longest = int(lengths.max(axis=1).argmax())
    width = int(lengths.max()) + 1
    source, target = lengths[longest].tolist()
    pairs = "1 pair" if len(rows) == 1 else f"{len(rows)} pairs"
    return (
        f"the largest batch does not fit into the memory of {world.device}: {pairs} of up to {width:,} tokens, "
        f"{len(rows) * width:,} with padding; the longest is line {int(rows[longest]) + 1} of data/train.jsonl in the "
        f"run, of {source:,} and {target:,} tokens. {MEMORY_HINT[0].upper()}{MEMORY_HINT[1:]}; or take a smaller model"
    )
