"""Training: from a config to a run directory with a model that translates."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seq2attn.data.ahead import ahead
from seq2attn.data.batches import Batch, batch_of, padding_share
from seq2attn.data.corpus import Corpus
from seq2attn.data.prepare import Prepared
from seq2attn.experiment import Experiment
from seq2attn.run import Run
from seq2attn.training.checkpoint import TrainState
from seq2attn.training.distributed import World
from seq2attn.training.judge import Judge
from seq2attn.training.objective import Loss, Objective
from seq2attn.training.progress import amounts, is_due, share_done
from seq2attn.training.reinforce import moved
from seq2attn.training.report import Reporter
from seq2attn.training.schedules import Progress
from seq2attn.training.updates import Update, updates_of


@dataclass
class Tally:
    """What has been learnt from since the last report."""

    objective: Tensor  # [] summed over words
    likelihood: Tensor  # [] summed over words
    guided: Tensor  # [2] of the links: summed, and over how many words
    norm: Tensor  # [] of the last update's gradient
    words: float = 0.0
    seconds: float = 0.0


class Trainer:
    """One training: its parts, and where it stands."""

    def __init__(
        self,
        config: Experiment,
        run: Run,
        prepared: Prepared,
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        state: TrainState,
        world: World,
        reporter: Reporter,
    ) -> None:
        self.config = config.training
        self.prepared, self.world, self.reporter = prepared, world, reporter
        self.objective, self.wrapped = objective, world.wrap(objective)
        self.learn: Callable[[Batch, float | None], Loss] = self.wrapped
        if config.training.compile:
            self.learn = torch.compile(self.wrapped, dynamic=True)
        self.optimizer, self.state = optimizer, state
        self.judge = Judge(config.training, run, prepared, objective, optimizer, world, reporter)
        self.autocast = use_bfloat16(config.training.precision, world.device)
        self.tally = self._empty_tally()
        self.clock = time.monotonic()  # what came before it is counted

    # ------------------------------------------------------------------ the loop

    def train(self) -> None:
        """Until one of the durations is over, or validation has stopped getting better."""
        self.objective.train()
        validated = self.state.update
        while not self._over():
            corpus = self.prepared.train.epoch(self.config.seed, self.state.epoch)
            updates = self._plan(corpus)
            self.reporter.epoch(self.state.epoch + 1, len(updates), self.state.cursor)
            self.clock = time.monotonic()
            for batches in ahead(self._make(corpus), updates[self.state.cursor :]):
                if self._learn(batches):
                    self.judge.validate(self.state)
                    validated = self.state.update
                    self.clock = time.monotonic()
                if self._over():
                    break
        self.reporter.close_bar()
        if validated != self.state.update:
            if self.tally.words:
                self._report()
            self.judge.validate(self.state)
        self.judge.finish()

    def _make(self, corpus: Corpus) -> Callable[[Update], list[Batch]]:
        """What makes the batches of an update, in memory that a card can read while it computes."""

        def batches(update: Update) -> list[Batch]:
            made = [batch_of(corpus, rows) for rows in update]
            return made if self.world.device.type == "cpu" else [batch.pinned() for batch in made]

        return batches

    def _learn(self, batches: Sequence[Batch]) -> bool:
        """One update, and its reports; whether it is time to validate."""
        before = amounts(self.state)
        self._update(batches)
        self.state.cursor += 1
        if self.state.cursor == self.state.updates_an_epoch:
            self.state.epoch, self.state.cursor = self.state.epoch + 1, 0
        reports = self.state.update % self.config.report_every == 0
        if reports:
            self.world.catch_up()
        self._take_time()
        validates = is_due(self.config.validation.every, before, amounts(self.state))
        if validates or reports:
            self._report()  # before a checkpoint too, so that none has to keep what was not reported yet
        self.reporter.advance(self._time_left())
        return validates

    def _take_time(self) -> None:
        """Count the time since the clock was set, and set it."""
        now = time.monotonic()
        (seconds,) = self.world.sum((now - self.clock) / self.world.size)
        self.clock = now
        self.state.seconds += seconds
        self.tally.seconds += seconds

    def _update(self, batches: Sequence[Batch]) -> None:
        """Learn from the batches together, as if they were one with those of all processes."""
        self.state.update += 1
        # Randomness is a function of where training stands, so that a resumed run draws what the whole one drew.
        torch.manual_seed(seed_of(self.config.seed, self.state.update, self.world.rank))
        (words,) = self.world.sum(float(sum(len(batch.said) for batch in batches)))
        now = Progress(self.state.update, self.state.epochs, self.state.plateaus)
        rate = self.config.optimizer.rate * self.config.schedule.multiplier(now)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["share"]
        likelihood = self.tally.likelihood.clone()
        for batch in batches:
            last = batch is batches[-1]
            with nullcontext() if last else self.world.local(self.wrapped):
                with self._precision():
                    loss = self.learn(batch.to(self.world.device), self.state.baseline)
                (loss.objective * (self.world.size / words)).backward()
            self.tally.objective += loss.objective.detach()
            self.tally.likelihood += loss.negative_log_likelihood.detach()
            self.tally.guided += torch.stack([loss.guided.detach(), loss.guided_words])
        most = self.config.clip or math.inf
        self.tally.norm = torch.nn.utils.clip_grad_norm_(self.objective.parameters(), most)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if loss.drew:
            (lost,) = self.world.sum(float(self.tally.likelihood - likelihood))
            self.state.baseline = moved(self.state.baseline, -lost / words)
        self.state.words += int(words)
        self.tally.words += words

    def _precision(self) -> AbstractContextManager[Any]:
        if not self.autocast:
            return nullcontext()
        return torch.autocast(self.world.device.type, dtype=torch.bfloat16)

    def _plan(self, corpus: Corpus) -> list[Update]:
        """The epoch's updates."""
        state = self.state
        updates = updates_of(corpus.lengths, self.config, self.world, epoch=state.epoch)
        if state.update == 0:
            share = padding_share(corpus.lengths, [part for update in updates for part in update])
            self.reporter.say(f"{len(updates)} updates an epoch, {share:.1%} padding")
        # Resumed with another budget or number of processes, an epoch goes on where as much of it was over.
        state.cursor = min(state.cursor * len(updates) // state.updates_an_epoch, len(updates) - 1)
        state.updates_an_epoch = len(updates)
        return updates

    # ------------------------------------------------------------------ where it stands

    def _over(self) -> bool:
        patience = self.config.validation.patience
        return share_done(self.config.until, self.state) >= 1 or (
            patience is not None and self.state.stale >= patience
        )

    def _time_left(self) -> str:
        share = share_done(self.config.until, self.state)
        left = self.state.seconds * (1 - share) / share if share else 0.0
        rate = self.tally.words / self.tally.seconds if self.tally.seconds else 0.0
        return f"{rate:,.0f} words/s, {left / 60:.0f} min left"

    # ------------------------------------------------------------------ reports

    def _empty_tally(self) -> Tally:
        zero = torch.zeros((), device=self.world.device)
        return Tally(zero.clone(), zero.clone(), zero.repeat(2), zero)

    def _report(self) -> None:
        tally, self.tally = self.tally, self._empty_tally()
        objective, likelihood, guided, guided_words = self.world.sum(
            float(tally.objective), float(tally.likelihood), *tally.guided.tolist()
        )
        numbers = {
            "epoch": round(self.state.epochs, 3),
            "words": self.state.words,
            "loss": objective / tally.words,
            "perplexity": math.exp(min(likelihood / tally.words, 700.0)),
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "gradient_norm": float(tally.norm),
            "words_per_second": tally.words / tally.seconds,
            "seconds": self.state.seconds,
        }
        links = ""
        if guided_words:
            numbers["guided"] = guided / guided_words
            links = f"  guided {numbers['guided']:.3f}"
        self.reporter.measure("train", self.state.update, numbers)
        self.reporter.say(
            f"epoch {numbers['epoch']:.2f}  update {self.state.update}  loss {numbers['loss']:.3f}"
            f"  ppl {numbers['perplexity']:.2f}{links}  {numbers['words_per_second']:,.0f} words/s"
        )


def seed_of(*numbers: int) -> int:
    """A seed that no other numbers give, as good as certainly."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


def use_bfloat16(precision: str, device: torch.device) -> bool:
    """Whether to compute in bfloat16: asked for, or on a card that has it."""
    if precision == "auto":
        return device.type == "cuda" and torch.cuda.is_bf16_supported()
    return precision == "bfloat16"
