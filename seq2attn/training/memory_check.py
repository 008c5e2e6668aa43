"""A trial of the largest micro-batches before training, so that too little memory shows in the first minute."""

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
from seq2attn.training.gradient_accumulation import (
    MEMORY_HINT,
    GradientAccumulator,
    UpdateBatches,
    run_if_memory_fits,
)


def check_memory(
    gradients: GradientAccumulator,
    optimizer: torch.optim.Optimizer,
    corpus: Corpus,
    updates: Sequence[UpdateBatches],
    baseline: float | None,
) -> None:
    """Gradients of the largest micro-batch, and of that with the longest pair; they are dropped.

    Raises: UserError, in all processes, if one of them has too little memory.
    """
    start, world = time.monotonic(), gradients.world
    micro_batches = [rows for update in updates for rows in update]
    reserved = run_if_memory_fits(lambda: reserve_optimizer_memory(gradients.objective, optimizer))
    failed: Indices | None = micro_batches[0] if reserved is None else None
    for rows in largest_micro_batches(micro_batches, corpus.lengths) if reserved is not None else []:
        (micro_batch,) = gradients.make_micro_batches(corpus, [rows])
        if not gradients.fits_in_memory(micro_batch, baseline):
            failed = rows
            break
    message = None if failed is None else _memory_message(corpus.lengths[failed], failed, world.device)
    for error in filter(None, world.all_gather(message)):
        raise UserError(error)
    if gradients.compiled:
        gradients.reporter.log(f"compiled the model and checked memory in {time.monotonic() - start:.0f} s")


def largest_micro_batches(micro_batches: Sequence[Indices], lengths: NDArray[np.int64]) -> list[Indices]:
    """The micro-batch with most tokens, padding included, and that with the longest pair if it is another."""
    sizes = [(len(rows), int(lengths[rows].max()) + 1) for rows in micro_batches]
    largest = max(range(len(sizes)), key=lambda number: (sizes[number][0] * sizes[number][1], sizes[number][1]))
    longest = max(range(len(sizes)), key=lambda number: sizes[number][::-1])
    return [micro_batches[number] for number in dict.fromkeys((largest, longest))]


def reserve_optimizer_memory(module: nn.Module, optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Tensors of the size of the state after the optimizer's first step: two per weight for Adam."""
    if optimizer.state:
        return []
    count = 2 if "momentum" not in optimizer.defaults else int(optimizer.defaults["momentum"] > 0)
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return [torch.zeros_like(parameter) for parameter in trained for _ in range(count)]


def _memory_message(lengths: NDArray[np.int64], rows: Indices, device: torch.device) -> str:
    longest = int(lengths.max(axis=1).argmax())
    width = int(lengths.max()) + 1
    source, target = lengths[longest].tolist()
    pairs = "1 pair" if len(rows) == 1 else f"{len(rows)} pairs"
    return (
        f"the largest batch does not fit in the memory of {device}: {pairs} of up to {width:,} tokens, "
        f"{len(rows) * width:,} with padding; the longest is line {int(rows[longest]) + 1} of data/train.jsonl in the "
        f"run, of {source:,} and {target:,} tokens; {MEMORY_HINT}, or use a smaller model"
    )
