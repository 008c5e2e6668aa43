"""Values of `auto` and `fit`, and a trial of the largest micro-batches before training.

Batches of 4,096 tokens and a warm-up of 4,000 updates are usual for millions of sentence pairs (Vaswani et al. 2017).
With them, 20 epochs of 10,000 pairs are 900 updates, and the learning rate does not reach its maximum. So `auto` takes
the batch size by the size of the corpus, and the warm-up by the length of the training, never by measured speed: two
trainings of one config stay equal. The trial shows too little memory in the first minute.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seq2attn.config.duration import SECONDS, Duration
from seq2attn.data.batch_planner import Indices
from seq2attn.data.collate import make_batch
from seq2attn.data.corpus import Corpus
from seq2attn.errors import UserError
from seq2attn.nn.linear import autocast
from seq2attn.training.config import TrainingConfig
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.gradient_accumulation import (
    MEMORY_HINT,
    GradientAccumulator,
    UpdateBatches,
    plan_updates,
    run_if_memory_fits,
)
from seq2attn.training.loss import TrainingLoss
from seq2attn.training.lr_schedules import InverseSquareRootScheduleConfig, NoamScheduleConfig
from seq2attn.training.train_state import TrainState, fraction_done

BATCH_TOKENS = (4096, 2048, 1024, 512, 256)
"""Candidates for the batch size, in tokens."""
MIN_UPDATES = 150
"""Minimum number of updates per epoch at the automatic batch size."""
MAX_RATIO = 4
"""Ratio to the automatic batch size from which a configured one causes a warning."""
MAX_WARMUP = 4000
DEFAULT_LENGTH = Duration(20, "epochs")
"""Assumed length of a training that has only a time limit."""

Lengths = NDArray[np.int64]  # [pairs, 2]


def resolve_auto(
    config: TrainingConfig, lengths: Lengths, world: DistributedContext, log: Callable[[str], None]
) -> TrainingConfig:
    """The config with numbers for `auto`, which are logged, and warnings about numbers that do not suit the corpus."""
    batch, schedule = config.batch, config.lr_schedule
    suggested = auto_batch_tokens(lengths, batch.gradient_accumulation * world.size)
    if batch.tokens == "auto":
        tokens = max(suggested, batch.micro_batch_tokens or 0)
        log(f"batch: {tokens:,} tokens, by the size of the corpus")
        config = config.model_copy(update={"batch": batch.model_copy(update={"tokens": tokens})})
    per_epoch = len(plan_updates(lengths, config, world, epoch=0))
    if (tokens := config.batch.require_tokens()) >= MAX_RATIO * suggested:
        log(
            f"warning: batches of {tokens:,} tokens make {per_epoch:,} updates per epoch of this corpus;"
            f" `training.batch.tokens: {suggested}` suits its size"
        )
    limit = num_updates(config.max_duration, per_epoch)
    if isinstance(schedule, NoamScheduleConfig | InverseSquareRootScheduleConfig) and schedule.warmup_updates == "auto":
        updates = limit or num_updates([DEFAULT_LENGTH], per_epoch) or 1
        warmup = auto_warmup(updates)
        share = "a tenth" if warmup < MAX_WARMUP else "of a training"
        log(f"warm-up: {warmup:,} updates, {share} of about {updates:,}")
        config = config.model_copy(update={"lr_schedule": schedule.model_copy(update={"warmup_updates": warmup})})
    if limit and (warning := warmup_warning(config, limit)):
        log(warning)
    return config


def auto_batch_tokens(lengths: Lengths, batches_per_update: int) -> int:
    """The largest batch size that allows `MIN_UPDATES` per epoch, or the smallest."""
    tokens = int((lengths.max(axis=1) + 1).sum())
    allowed = (size for size in BATCH_TOKENS if tokens >= MIN_UPDATES * size * batches_per_update)
    return next(allowed, BATCH_TOKENS[-1])


def auto_warmup(updates: int) -> int:
    """A tenth of the updates, at most the usual 4,000."""
    return max(1, min(MAX_WARMUP, updates // 10))


def num_updates(limits: Iterable[Duration], per_epoch: int) -> int | None:
    """The updates that the limits in updates and epochs allow; None if there are only times."""
    size = {"updates": 1, "epochs": per_epoch}
    return min((math.ceil(limit.value * size[limit.unit]) for limit in limits if limit.unit in size), default=None)


def warmup_warning(config: TrainingConfig, updates: int) -> str | None:
    """A warning if the warm-up takes more than half of a training of `updates`."""
    warmup = getattr(config.lr_schedule, "warmup_updates", 0)
    if 2 * warmup <= updates:
        return None
    return (
        f"warning: warm-up is {warmup:,} updates; training will end after about {updates:,}:"
        f" a tenth of that is usual, `training.lr_schedule.warmup_updates: {auto_warmup(updates)}`"
    )


def time_limit_warning(config: TrainingConfig, state: TrainState) -> str | None:
    """The same for a training that a duration in hours will end, by its speed so far. No value depends on it."""
    times = [limit for limit in config.max_duration if limit.unit in SECONDS]
    updates = num_updates(config.max_duration, state.updates_per_epoch)
    share = fraction_done(times, state) if times else 0.0
    expected = round(state.update / share) if share else 0
    ends_by_time = expected and (updates is None or expected < updates)
    return warmup_warning(config, expected) if ends_by_time else None


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
