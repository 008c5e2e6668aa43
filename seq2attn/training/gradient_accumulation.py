"""Micro-batches of an update, and the accumulation of their gradients; those that do not fit in memory are halved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seq2attn.data.batch_planner import Indices, plan_batches
from seq2attn.data.collate import Batch, make_batch
from seq2attn.data.corpus import Corpus
from seq2attn.errors import UserError
from seq2attn.experiment.training_config import TrainingConfig
from seq2attn.losses.training_loss import LossOutput, LossSums, TrainingLoss
from seq2attn.nn.device import is_oom_error
from seq2attn.nn.precision import autocast
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.metrics_logger import MetricsLogger, format_all_lines, format_few_lines

T = TypeVar("T")
UpdateBatches = list[Indices]
"""The rows of the corpus in each micro-batch of an update."""
MEMORY_HINT = (
    "reduce `training.batch.micro_batch_tokens` or `training.batch.tokens`, or drop long pairs"
    " (`data.filters.max_length`)"
)


@dataclass(frozen=True)
class MicroBatch:
    """Sentence pairs that go through the model together."""

    rows: Indices  # of the corpus
    batch: Batch

    @property
    def num_target_tokens(self) -> int:
        """Number of target tokens."""
        return len(self.batch.label_index)

    @property
    def num_tokens(self) -> int:
        """Rows times the longer side."""
        return max(self.batch.source.numel(), self.batch.target.numel())


@dataclass(frozen=True)
class UpdateInputs:
    """Data, random seed and constants of one update."""

    update: int
    corpus: Corpus
    micro_batches: list[MicroBatch]
    num_target_tokens: float  # of all processes
    seed: int
    reinforce_baseline: float | None


class GradientAccumulator:
    """Computes the gradients of an update: those of the mean loss per target token, in the parameters."""

    def __init__(
        self, config: TrainingConfig, objective: TrainingLoss, world: DistributedContext, reporter: MetricsLogger
    ) -> None:
        self.objective, self.world, self.reporter = objective, world, reporter
        self.wrapped = world.wrap_ddp(objective)
        self.compiled = config.compile
        if self.compiled:
            objective.model.compile(dynamic=True)  # without the loss, which has its own chunked kernel
        self.precision = config.precision
        self.padding_free = config.batch.padding_free

    def make_micro_batches(self, corpus: Corpus, update: UpdateBatches) -> list[MicroBatch]:
        """The micro-batches of an update, in pinned memory."""
        batches = [make_batch(corpus, rows, packed=self.padding_free) for rows in update]
        if self.world.device.type != "cpu":
            batches = [batch.pin_memory() for batch in batches]
        return [MicroBatch(rows, batch) for rows, batch in zip(update, batches, strict=True)]

    def accumulate(self, inputs: UpdateInputs) -> tuple[LossSums, list[MicroBatch], float]:
        """Accumulates the gradients of an update. Returns its sums, the micro-batches used, and their target tokens."""
        micro_batches, num_tokens = inputs.micro_batches, inputs.num_target_tokens
        while True:
            torch.manual_seed(inputs.seed)  # a function of seed and update: a resumed run draws the same numbers
            sums, failed = self._try(inputs, micro_batches, num_tokens)
            if failed is None:
                return sums, micro_batches, num_tokens
            self.reset()
            micro_batches = self._reduce(inputs, micro_batches, failed)
            if self.world.size == 1:
                num_tokens = float(sum(micro_batch.num_target_tokens for micro_batch in micro_batches))

    def fits_in_memory(self, micro_batch: MicroBatch, baseline: float | None) -> bool:
        """True if a micro-batch and its gradients fit in memory. Gradients are dropped, and not exchanged."""

        def compute_gradients() -> bool:
            with self.world.no_sync(self.wrapped), restored_buffers(self.objective):
                self._loss(micro_batch, baseline, 1).loss.backward()
            return True

        done = run_if_memory_fits(compute_gradients)
        self.reset()
        return done is not None

    def reset(self) -> None:
        """Drop all gradients, and free cached GPU memory."""
        self.objective.zero_grad(set_to_none=True)
        if self.world.device.type == "cuda":
            torch.cuda.empty_cache()

    def _try(
        self, inputs: UpdateInputs, micro_batches: list[MicroBatch], num_tokens: float
    ) -> tuple[LossSums, MicroBatch | None]:
        """The sums of all micro-batches, and the first one that did not fit in memory."""
        sums = LossSums.zeros(self.world.device)
        for micro_batch in micro_batches:
            is_last = micro_batch is micro_batches[-1]

            def compute_gradients(micro_batch: MicroBatch = micro_batch, is_last: bool = is_last) -> LossOutput:
                with nullcontext() if is_last else self.world.no_sync(self.wrapped):
                    loss = self._loss(micro_batch, inputs.reinforce_baseline, inputs.update)
                    self._backward(loss.loss * (self.world.size / num_tokens), is_last)
                return loss

            loss = run_if_memory_fits(compute_gradients)
            if loss is None:
                return sums, micro_batch
            sums = sums.add(loss)
        return sums, None

    def _loss(self, micro_batch: MicroBatch, baseline: float | None, update: int) -> LossOutput:
        with autocast(self.precision, self.world.device):
            return self.wrapped(micro_batch.batch.to(self.world.device), baseline, update)

    def _backward(self, objective: Tensor, is_last: bool) -> None:
        try:
            objective.backward()
        except RuntimeError as error:
            if is_last and self.world.size > 1 and is_oom_error(error):
                # The other processes have received some of the gradients and wait for the rest.
                raise UserError(
                    f"process {self.world.rank} ran out of memory during the exchange of gradients; {MEMORY_HINT}, and"
                    " resume with `train --resume`"
                ) from None
            raise

    def _reduce(self, inputs: UpdateInputs, micro_batches: list[MicroBatch], failed: MicroBatch) -> list[MicroBatch]:
        """Micro-batches with halves of those as large as `failed`; a single pair is dropped."""
        count = len(failed.rows)
        message = f"update {inputs.update}: {format_few_lines(failed.rows)} did not fit in memory"
        event = "out_of_memory" if count > 1 else "dropped"
        self.reporter.log_metrics(event, inputs.update, {"lines": format_all_lines(failed.rows)})
        if count > 1:
            self.reporter.log(f"{message}; micro-batches of this size are halved")
            return [half for one in micro_batches for half in self._halve(inputs, one, failed.num_tokens)]
        if self.world.size > 1:  # all processes divide by the tokens of all
            raise UserError(f"{message}: a single pair, in process {self.world.rank}; {MEMORY_HINT}")
        self.reporter.log(f"{message}: a single pair, which is dropped; {MEMORY_HINT}")
        return [one for one in micro_batches if one is not failed]

    def _halve(self, inputs: UpdateInputs, micro_batch: MicroBatch, size: int) -> list[MicroBatch]:
        if micro_batch.num_tokens < size or len(micro_batch.rows) == 1:
            return [micro_batch]
        return self.make_micro_batches(inputs.corpus, list(np.array_split(micro_batch.rows, 2)))


def plan_updates(
    lengths: NDArray[np.int64], config: TrainingConfig, world: DistributedContext, *, epoch: int
) -> list[UpdateBatches]:
    """The updates of an epoch in this process, a function of the arguments only. `lengths` is [pairs, 2]."""
    num_micro_batches = config.batch.num_micro_batches(world.device, config.precision)
    tokens = config.batch.require_tokens() // num_micro_batches
    rows = plan_batches(lengths, tokens=tokens, seed=config.seed, epoch=epoch, rank=world.rank, world=world.size)
    size = num_micro_batches * config.batch.gradient_accumulation
    return [rows[start : start + size] for start in range(0, len(rows), size)]


@contextmanager
def restored_buffers(module: nn.Module) -> Iterator[None]:
    """Buffers, such as the statistics of batch norm, are afterwards as before."""
    saved = [buffer.clone() for buffer in module.buffers()]
    try:
        yield
    finally:
        for buffer, value in zip(module.buffers(), saved, strict=True):
            buffer.copy_(value)


def run_if_memory_fits(compute: Callable[[], T]) -> T | None:
    """The result of `compute`; None if it ran out of memory."""
    try:
        return compute()
    except (RuntimeError, MemoryError) as error:
        if not is_oom_error(error):
            raise
    return None
