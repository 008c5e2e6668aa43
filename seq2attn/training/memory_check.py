"""Batches that fit in memory: a trial of the largest micro-batches before training, so that too little memory shows in
the first minute, and the largest batch for `training.batch.tokens: fit`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seq2attn.data.batch_planner import Indices
from seq2attn.data.collate import make_batch
from seq2attn.data.corpus import Corpus
from seq2attn.errors import UserError
from seq2attn.experiment.training_config import TrainingConfig
from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.nn.precision import autocast
from seq2attn.training.auto_settings import MIN_UPDATES
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.gradient_accumulation import (
    MEMORY_HINT,
    GradientAccumulator,
    UpdateBatches,
    restored_buffers,
    run_if_memory_fits,
)


def check_memory(
    config: TrainingConfig,
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
    reserved = run_if_memory_fits(lambda: reserve_optimizer_memory(gradients.objective, optimizer, config))
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
        gradients.reporter.log_session(f"compiled the model and checked memory in {time.monotonic() - start:.0f} s")


def largest_micro_batches(micro_batches: Sequence[Indices], lengths: NDArray[np.int64]) -> list[Indices]:
    """The micro-batch with most tokens, padding included, and that with the longest pair if it is another."""
    sizes = [(len(rows), int(lengths[rows].max()) + 1) for rows in micro_batches]
    largest = max(range(len(sizes)), key=lambda number: (sizes[number][0] * sizes[number][1], sizes[number][1]))
    longest = max(range(len(sizes)), key=lambda number: sizes[number][::-1])
    return [micro_batches[number] for number in dict.fromkeys((largest, longest))]


def reserve_optimizer_memory(
    module: nn.Module, optimizer: torch.optim.Optimizer, config: TrainingConfig
) -> list[Tensor]:
    """Tensors of the size of the state after the optimizer's first step: two per weight for Adam, and its average."""
    if optimizer.state:
        return []
    count = 2 if "momentum" not in optimizer.defaults else int(optimizer.defaults["momentum"] > 0)
    count += config.ema_decay is not None
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
    rows_of_epoch: Indices,
    world: DistributedContext,
) -> int:
    """Maximum number of tokens of a batch that fits in memory with gradients and the optimizer's state.

    Candidates are copies of one pair, in the precision of the training. The result allows as many updates per epoch as
    `auto`. All processes get the number of the smallest GPU.
    """
    widths = corpus.lengths.max(axis=1) + 1
    by_width = np.argsort(widths, kind="stable")
    per_epoch = int(widths[rows_of_epoch].sum()) // (MIN_UPDATES * config.batch.gradient_accumulation * world.size)

    def compute_gradients(pair: int, rows: int) -> bool:
        batch = make_batch(corpus, np.full(rows, pair), packed=config.batch.padding_free).to(world.device)
        with restored_buffers(objective):
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

    reserved = run_if_memory_fits(lambda: reserve_optimizer_memory(objective, optimizer, config))
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
