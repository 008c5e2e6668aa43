"""The gradients of an update, added up over its parts; a part that memory does not hold is learnt from in halves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from seq2attn.data.batch_planner import Indices
from seq2attn.data.collate import Batch, batch_of
from seq2attn.data.corpus import Corpus
from seq2attn.errors import UserError
from seq2attn.nn.out_of_memory import ran_out
from seq2attn.training.config import TrainingConfig
from seq2attn.training.distributed import World
from seq2attn.training.loss import Loss, Objective
from seq2attn.training.metrics_logger import Reporter
from seq2attn.training.recovery.nonfinite import lines_of, named
from seq2attn.training.update_planner import Update

T = TypeVar("T")
LESS = (
    "give fewer `training.batch.at_once` or `training.batch.tokens`, or leave out long pairs"
    " (`data.filters.max_length`)"
)


@dataclass(frozen=True)
class Part:
    """Pairs that go through the model together."""

    rows: Indices  # of the corpus
    batch: Batch

    @property
    def words(self) -> int:
        """Target words."""
        return len(self.batch.said)

    @property
    def size(self) -> int:
        """Rows times the longer side."""
        return max(self.batch.source.numel(), self.batch.target.numel())


@dataclass(frozen=True)
class Sums:
    """What the losses of an update's parts add up to in this process, from where they are begun."""

    objective: Tensor  # []
    likelihood: Tensor  # []
    guided: Tensor  # [2]
    drew: bool = False

    def plus(self, loss: Loss) -> Sums:
        """With one loss more."""
        return Sums(
            self.objective + loss.objective.detach(),
            self.likelihood + loss.negative_log_likelihood.detach(),
            self.guided + torch.stack([loss.guided.detach(), loss.guided_words]),
            loss.drew,
        )


@dataclass(frozen=True)
class Work:
    """What one update is to learn from."""

    update: int
    corpus: Corpus
    parts: list[Part]
    words: float  # of all processes
    seed: int
    baseline: float | None


class Gradients:
    """Leaves in the parameters the gradient of the mean loss of a word of an update."""

    def __init__(
        self, config: TrainingConfig, objective: Objective, world: World, reporter: Reporter
    ) -> None:
        self.objective, self.world, self.reporter = objective, world, reporter
        self.wrapped = world.wrap(objective)
        self.compiled = config.compile
        if self.compiled:
            objective.model.compile(dynamic=True)  # the loss is made by hand, a chunk at a time
        self.precision = config.precision
        self.packed = config.batch.packed

    def parts(self, corpus: Corpus, update: Update) -> list[Part]:
        """An update's parts, in memory that a card can read while it computes."""
        batches = [batch_of(corpus, rows, packed=self.packed) for rows in update]
        if self.world.device.type != "cpu":
            batches = [batch.pinned() for batch in batches]
        return [Part(rows, batch) for rows, batch in zip(update, batches, strict=True)]

    def of(self, work: Work, sums: Sums) -> tuple[Sums, list[Part], float]:
        """The sums with those of the work, the parts in which it was done, and of how many words these are."""
        parts, words = work.parts, work.words
        while True:
            # Randomness is a function of where training stands: a resumed run draws what the whole one drew.
            torch.manual_seed(work.seed)
            found, failed = self._try(work, parts, words, sums)
            if failed is None:
                return found, parts, words
            self.forget()
            parts = self._smaller(work, parts, parts[failed])
            if self.world.size == 1:
                words = float(sum(part.words for part in parts))

    def holds(self, part: Part, baseline: float | None) -> bool:
        """Whether memory holds a part and its gradients, which are thrown away; no other process is asked."""

        def learn() -> bool:
            with self.world.local(self.wrapped):
                self._loss(part, baseline).objective.backward()
            return True

        held = fitted(learn)
        self.forget()
        return held is not None

    def forget(self) -> None:
        """Drop all gradients, and give back the memory of what failed."""
        self.objective.zero_grad(set_to_none=True)
        if self.world.device.type == "cuda":
            torch.cuda.empty_cache()

    def _try(self, work: Work, parts: list[Part], words: float, sums: Sums) -> tuple[Sums, int | None]:
        """The sums with all parts, and the number of the part that memory did not hold, if there was one."""
        for number, part in enumerate(parts):
            last = number == len(parts) - 1

            def learn(part: Part = part, last: bool = last) -> Loss:
                with nullcontext() if last else self.world.local(self.wrapped):
                    loss = self._loss(part, work.baseline)
                    self._back(loss.objective * (self.world.size / words), last)
                return loss

            loss = fitted(learn)
            if loss is None:
                return sums, number
            sums = sums.plus(loss)
        return sums, None

    def _loss(self, part: Part, baseline: float | None) -> Loss:
        with autocast(self.precision, self.world.device):
            return self.wrapped(part.batch.to(self.world.device), baseline)

    def _back(self, objective: Tensor, last: bool) -> None:
        try:
            objective.backward()
        except RuntimeError as error:
            if last and self.world.size > 1 and ran_out(error):
                # The others have had some of its gradients already, and wait for the rest: it cannot begin anew.
                raise UserError(
                    f"process {self.world.rank} ran out of memory while gradients were exchanged; go on by"
                    f" `train --resume`, and {LESS}"
                ) from None
            raise

    def _smaller(self, work: Work, parts: list[Part], failed: Part) -> list[Part]:
        """The parts, those in halves that are as large as one that did not fit; it is left out if it is one pair."""
        count = len(failed.rows)
        where = f"update {work.update}: {named(failed.rows)} did not fit into memory"
        self.reporter.measure(
            "out_of_memory" if count > 1 else "left_out", work.update, {"lines": lines_of(failed.rows)}
        )
        if count > 1:
            self.reporter.say(f"{where}; parts of so many tokens are learnt from in halves")
            return [half for part in parts for half in self._halved(work, part, failed.size)]
        if self.world.size > 1:  # all divide by the words of all
            raise UserError(f"{where}: one pair alone, in process {self.world.rank}; {LESS}")
        self.reporter.say(f"{where}: one pair alone, which is left out; {LESS}")
        return [part for part in parts if part is not failed]

    def _halved(self, work: Work, part: Part, size: int) -> list[Part]:
        if part.size < size or len(part.rows) == 1:
            return [part]
        return self.parts(work.corpus, list(np.array_split(part.rows, 2)))


def fitted(compute: Callable[[], T]) -> T | None:
    """What is computed; None when memory did not hold it, all of which is then free again."""
    try:
        return compute()
    except (RuntimeError, MemoryError) as error:
        if not ran_out(error):
            raise
    return None


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """Within it products are in bfloat16 where `training.precision` asks for it, or has a card that computes in it."""
    if precision == "auto":
        wanted = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        wanted = precision == "bfloat16"
    return torch.autocast(device.type, dtype=torch.bfloat16) if wanted else nullcontext()
