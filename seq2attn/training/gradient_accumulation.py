"""The gradients of an update, accumulated over micro-batches; one that does not fit into memory is halved."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from seq2attn.data.batch_planner import Indices
from seq2attn.data.collate import Batch, make_batch
from seq2attn.data.corpus import Corpus
from seq2attn.errors import UserError
from seq2attn.nn.out_of_memory import is_oom_error
from seq2attn.training.config import TrainingConfig
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.loss import LossOutput, LossSums, TrainingLoss
from seq2attn.training.metrics_logger import MetricsLogger
from seq2attn.training.nonfinite import format_all_lines, format_few_lines
from seq2attn.training.update_planner import UpdateBatches

T = TypeVar("T")
MEMORY_HINT = (
    "give fewer `training.batch.micro_batch_tokens` or `training.batch.tokens`, or leave out long pairs"
    " (`data.filters.max_length`)"
)


@dataclass(frozen=True)
class MicroBatch:
    """Pairs that go through the model together."""

    rows: Indices  # of the corpus
    batch: Batch

    @property
    def num_target_tokens(self) -> int:
        """Target tokens."""
        return len(self.batch.label_index)

    @property
    def num_tokens(self) -> int:
        """Rows times the longer side."""
        return max(self.batch.source.numel(), self.batch.target.numel())


@dataclass(frozen=True)
class UpdateInputs:
    """What one update is to learn from."""

    update: int
    corpus: Corpus
    micro_batches: list[MicroBatch]
    num_target_tokens: float  # of all processes
    seed: int
    reinforce_baseline: float | None


class GradientAccumulator:
    """Leaves in the parameters the gradient of the mean loss of a word of an update."""

    def __init__(
        self,
        config: TrainingConfig,
        objective: TrainingLoss,
        world: DistributedContext,
        reporter: MetricsLogger,
    ) -> None:
        self.objective, self.world, self.reporter = objective, world, reporter
        self.wrapped = world.wrap_ddp(objective)
        self.compiled = config.compile
        if self.compiled:
            objective.model.compile(dynamic=True)  # the loss is made by hand, a chunk at a time
        self.precision = config.precision
        self.padding_free = config.batch.padding_free

    def make_micro_batches(self, corpus: Corpus, update: UpdateBatches) -> list[MicroBatch]:
        """The micro-batches of an update, in pinned memory."""
        batches = [make_batch(corpus, rows, packed=self.padding_free) for rows in update]
        if self.world.device.type != "cpu":
            batches = [batch.pin_memory() for batch in batches]
        return [MicroBatch(rows, batch) for rows, batch in zip(update, batches, strict=True)]

    def accumulate(self, work: UpdateInputs, sums: LossSums) -> tuple[LossSums, list[MicroBatch], float]:
        """Accumulates the gradients of an update. Returns loss sums, micro-batches used, and their target tokens."""
        parts, num_tokens = work.micro_batches, work.num_target_tokens
        while True:
            # Randomness is a function of where training stands: a resumed run draws what the whole one drew.
            torch.manual_seed(work.seed)
            found, failed = self._try(work, parts, num_tokens, sums)
            if failed is None:
                return found, parts, num_tokens
            self.reset()
            parts = self._smaller(work, parts, parts[failed])
            if self.world.size == 1:
                num_tokens = float(sum(part.num_target_tokens for part in parts))

    def fits_in_memory(self, part: MicroBatch, baseline: float | None) -> bool:
        """Whether memory holds a part and its gradients, which are thrown away; without communication."""

        def learn() -> bool:
            with self.world.no_sync(self.wrapped):
                self._loss(part, baseline).loss.backward()
            return True

        held = run_if_memory_fits(learn)
        self.reset()
        return held is not None

    def reset(self) -> None:
        """Drop all gradients, and give back the memory of what failed."""
        self.objective.zero_grad(set_to_none=True)
        if self.world.device.type == "cuda":
            torch.cuda.empty_cache()

    def _try(
        self, work: UpdateInputs, parts: list[MicroBatch], num_tokens: float, sums: LossSums
    ) -> tuple[LossSums, int | None]:
        """The sums with all parts, and the number of the part that memory did not hold, if there was one."""
        for number, part in enumerate(parts):
            last = number == len(parts) - 1

            def learn(part: MicroBatch = part, last: bool = last) -> LossOutput:
                with nullcontext() if last else self.world.no_sync(self.wrapped):
                    loss = self._loss(part, work.reinforce_baseline)
                    self._back(loss.loss * (self.world.size / num_tokens), last)
                return loss

            loss = run_if_memory_fits(learn)
            if loss is None:
                return sums, number
            sums = sums.add(loss)
        return sums, None

    def _loss(self, part: MicroBatch, baseline: float | None) -> LossOutput:
        with autocast(self.precision, self.world.device):
            return self.wrapped(part.batch.to(self.world.device), baseline)

    def _back(self, objective: Tensor, last: bool) -> None:
        try:
            objective.backward()
        except RuntimeError as error:
            if last and self.world.size > 1 and is_oom_error(error):
                # The others have had some of its gradients already, and wait for the rest: it cannot be repeated.
                raise UserError(
                    f"process {self.world.rank} ran out of memory while gradients were exchanged; go on by"
                    f" `train --resume`, and {MEMORY_HINT}"
                ) from None
            raise

    def _smaller(self, work: UpdateInputs, parts: list[MicroBatch], failed: MicroBatch) -> list[MicroBatch]:
        """The parts, those in halves that are as large as one that did not fit; it is dropped if it is one pair."""
        count = len(failed.rows)
        where = f"update {work.update}: {format_few_lines(failed.rows)} did not fit into memory"
        self.reporter.log_metrics(
            "out_of_memory" if count > 1 else "dropped",
            work.update,
            {"lines": format_all_lines(failed.rows)},
        )
        if count > 1:
            self.reporter.log(f"{where}; micro-batches of this size are halved")
            return [half for part in parts for half in self._halved(work, part, failed.num_tokens)]
        if self.world.size > 1:  # all divide by the tokens of all
            raise UserError(f"{where}: one pair alone, in process {self.world.rank}; {MEMORY_HINT}")
        self.reporter.log(f"{where}: one pair alone, which is dropped; {MEMORY_HINT}")
        return [part for part in parts if part is not failed]

    def _halved(self, work: UpdateInputs, part: MicroBatch, size: int) -> list[MicroBatch]:
        if part.num_tokens < size or len(part.rows) == 1:
            return [part]
        return self.make_micro_batches(work.corpus, list(np.array_split(part.rows, 2)))


def run_if_memory_fits(compute: Callable[[], T]) -> T | None:
    """What is computed; None when memory did not hold it, all of which is then free again."""
    try:
        return compute()
    except (RuntimeError, MemoryError) as error:
        if not is_oom_error(error):
            raise
    return None


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """Autocast to bfloat16 where `training.precision` asks for it, or is `auto` on a GPU that supports it."""
    if precision == "auto":
        wanted = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        wanted = precision == "bfloat16"
    return torch.autocast(device.type, dtype=torch.bfloat16) if wanted else nullcontext()
