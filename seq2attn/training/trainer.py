"""Training: from a config to a run directory with a model that translates."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import timedelta
from typing import NoReturn

import numpy as np
import torch

from seq2attn.data.batch_planner import padding_share
from seq2attn.data.corpus import Corpus
from seq2attn.data.prefetch import ahead
from seq2attn.data.prepare import Prepared
from seq2attn.errors import Stopped
from seq2attn.experiment import Experiment
from seq2attn.run_directory import Run
from seq2attn.training.auto_settings import time_limit_warning
from seq2attn.training.checkpoints.manager import Judge
from seq2attn.training.checkpoints.retention import drop_unsound
from seq2attn.training.distributed import World
from seq2attn.training.gradient_accumulation import Gradients, Part, Sums, Work
from seq2attn.training.interruption import Stop, name_of
from seq2attn.training.loss import Objective
from seq2attn.training.lr_schedules import Progress
from seq2attn.training.memory_check import rehearse
from seq2attn.training.metrics_logger import Reporter
from seq2attn.training.progress import amounts, is_due, share_done
from seq2attn.training.recovery.nonfinite import (
    Tried,
    Watch,
    are_finite,
    diverged,
    is_usable,
    learnt,
    unsound,
)
from seq2attn.training.reinforce import moved
from seq2attn.training.train_metrics import Tally, empty_tally, kept_tally
from seq2attn.training.train_state import TrainState
from seq2attn.training.update_planner import Update, updates_of
from seq2attn.training.validation import describe


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
        stop: Stop,
    ) -> None:
        self.run, self.config, self.has_tests = run, config.training, bool(config.data.test)
        self.prepared, self.world, self.reporter = prepared, world, reporter
        self.objective, self.optimizer, self.state = objective, optimizer, state
        self.gradients = Gradients(config.training, objective, world, reporter)
        self.watch = Watch(config.training.max_consecutive_skips, optimizer, world, reporter)
        self.rehearsed = False
        self.judge = Judge(config, run, prepared, objective, optimizer, world, reporter)
        self.tally = kept_tally(state.tally, world)
        self.state.tally = []
        self.stop = stop
        self.stopping = False  # what all processes have agreed on
        self.clock = time.monotonic()  # what came before it is counted

    # ------------------------------------------------------------------ the loop

    def train(self) -> None:
        """Until one of the durations is over, or validation has stopped getting better.

        Raises Stopped when it was asked to stop before, and has saved where it stands; DivergedError when too many
        updates are skipped in a row, or weights or dev loss are not finite.
        """
        self.objective.train()
        self.judge.settle(self.state)
        while not self._over():
            self._epoch()
        self._look()
        if self.state.validated != self.state.update:
            self._report()
            self._validate()
        self.reporter.close_bar()
        origin, scores = self.judge.finish(self.state)
        self.reporter.note(self._ended(origin, scores))

    def _ended(self, origin: str, scores: dict[str, float]) -> str:
        state = self.state
        command = "evaluate" if self.has_tests else "translate"
        return (
            f"training ended after {timedelta(seconds=round(state.seconds))} and {state.update:,} updates; translations"
            f" are by {origin} ({describe(scores)}); next: seq2attn {command} {self.run.folder}"
        )

    def _epoch(self) -> None:
        """To the end of the epoch, unless training ends before."""
        corpus = self.prepared.train.epoch(self.config.seed, self.state.epoch)
        updates = self._plan(corpus)
        if not self.rehearsed:
            rehearse(self.gradients, self.optimizer, corpus, updates, self.state.baseline)
            self.rehearsed = True
        self.reporter.epoch(self.state.epoch + 1, len(updates), self.state.cursor)
        self.clock = time.monotonic()
        for parts in ahead(self._make(corpus), updates[self.state.cursor :]):
            if self._learn(corpus, parts):
                self._validate()
            if self.stopping:
                self._leave()
            if self._over():
                break

    def _make(self, corpus: Corpus) -> Callable[[Update], list[Part]]:
        return lambda update: self.gradients.parts(corpus, update)

    def _learn(self, corpus: Corpus, parts: list[Part]) -> bool:
        """One update, and its reports; whether it is time to validate."""
        before = amounts(self.state)
        self._update(corpus, parts)
        self.state.cursor += 1
        if self.state.cursor == self.state.updates_an_epoch:
            self.state.epoch, self.state.cursor = self.state.epoch + 1, 0
        reports = self.state.update % self.config.report_every == 0
        if reports:
            self.world.catch_up()
        self._take_time()
        validates = is_due(self.config.validation.every, before, amounts(self.state))
        if validates or reports or self.stopping:
            self._look()
        if validates or reports:
            self._report()  # before a checkpoint too, so that none has to keep what was not reported yet
        self.reporter.advance(self._speed(self.tally))
        return validates

    def _take_time(self) -> None:
        """Count the time since the clock was set, and set it; agree on whether to stop, which then costs no more."""
        now = time.monotonic()
        seconds, asked = self.world.sum((now - self.clock) / self.world.size, float(self.stop.code))
        self.stopping = asked > 0
        self.clock = now
        self.state.seconds += seconds
        self.tally.seconds += seconds

    def _update(self, corpus: Corpus, parts: list[Part]) -> None:
        """Learn from the parts together, as if they were one with those of all processes."""
        state, tally = self.state, self.tally
        state.update += 1
        self._set_rate()
        (words,) = self.world.sum(float(sum(part.words for part in parts)))
        seed = seed_of(self.config.seed, state.update, self.world.rank)
        before = Sums(tally.objective, tally.likelihood, tally.guided)
        work = Work(state.update, corpus, parts, words, seed, state.baseline)
        sums, parts, words = self.gradients.of(work, before)
        norm = torch.nn.utils.clip_grad_norm_(self.objective.parameters(), self.config.clip or math.inf)
        loss = self.world.total((sums.objective - before.objective) / max(words, 1.0))
        is_unsound = unsound(loss, norm)
        rows = np.concatenate([part.rows for part in parts] or [np.zeros(0, dtype=np.int64)])
        self.watch.step(Tried(state.update, tally.rate, rows, words, loss, norm, is_unsound))
        self.optimizer.zero_grad(set_to_none=True)
        tally.take(sums, norm, is_unsound)
        tally.words += words
        state.words += int(words)
        if sums.drew or self.watch.should_look:
            self._look()
        if sums.drew and not state.in_a_row:
            (lost,) = self.world.sum(float(sums.likelihood - before.likelihood))
            state.baseline = moved(state.baseline, -lost / words)

    def _set_rate(self) -> None:
        state = self.state
        at = Progress(state.update, state.epochs, state.plateaus)
        rate = self.config.optimizer.rate * self.config.schedule.multiplier(at)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["share"]
        self.tally.rate = self.optimizer.param_groups[0]["lr"]

    def _plan(self, corpus: Corpus) -> list[Update]:
        """The epoch's updates."""
        state = self.state
        rows = self.prepared.train.rows(self.config.seed, state.epoch)
        planned = updates_of(corpus.lengths[rows], self.config, self.world, epoch=state.epoch)
        updates = [[rows[part] for part in update] for update in planned]
        if state.update == 0:
            share = padding_share(corpus.lengths, [part for update in updates for part in update])
            self.reporter.say(f"{len(updates)} updates an epoch, {share:.1%} padding")
        # Resumed with another budget or number of processes, an epoch goes on where as much of it was over.
        state.cursor = min(state.cursor * len(updates) // state.updates_an_epoch, len(updates) - 1)
        state.updates_an_epoch = len(updates)
        return updates

    # ------------------------------------------------------------------ what is unsound

    def _look(self) -> None:
        """Count what was skipped, from which nothing was learnt. Raises DivergedError after too many in a row."""
        words = self.watch.look(self.state)
        self.state.words -= int(words)
        self.tally.words -= words
        if self.watch.lost:
            self._diverge(self.state.in_a_row)

    def _validate(self) -> None:
        """Try the model and save it. Raises DivergedError if its weights or the loss are not finite."""
        self._check_finite()
        if not is_usable(self.judge.validate(self.state)):
            self._diverge(0)
        self.clock = time.monotonic()
        self._take_time()  # whoever was asked to stop meanwhile

    def _check_finite(self) -> None:
        if not are_finite(learnt(self.objective.model, self.optimizer)):
            self._diverge(0)

    def _diverge(self, skips: int) -> NoReturn:
        resumable = self.world.gather(drop_unsound(self.run.folder) if self.world.leads else None)[0]
        self.reporter.note(f"training has diverged at update {self.state.update}")
        raise diverged(self.watch.blamed(self.state), skips, self.prepared.train, resumable)

    # ------------------------------------------------------------------ where it stands

    def _over(self) -> bool:
        patience = self.config.validation.patience
        return share_done(self.config.until, self.state) >= 1 or (
            patience is not None and self.state.stale >= patience
        )

    def _leave(self) -> None:
        """Save where training stands, as it stands, and end this sitting."""
        if self.state.validated != self.state.update:  # else it was saved just now
            self._check_finite()
            self.state.tally = self.world.gather(self.tally.numbers())
            self.judge.save(self.state)
        self.reporter.close_bar()
        code = max(self.world.gather(self.stop.code))
        why = f"stopped by {name_of(code)} after update {self.state.update:,}, saved"
        self.reporter.note(why)
        raise Stopped(why, code)

    def _speed(self, tally: Tally) -> str:
        """Words a second, and how long training takes at most, by how much of it is over."""
        share = share_done(self.config.until, self.state)
        minutes = self.state.seconds * max(0.0, 1 / share - 1) / 60 if share else math.nan
        rate = tally.words / tally.seconds if tally.seconds else 0.0
        left = f", {minutes:,.0f} min left" if share else ""
        return f"{rate:,.0f} words/s{left}"

    # ------------------------------------------------------------------ reports

    def _report(self) -> None:
        if not self.tally.words:  # all was skipped
            return
        tally, self.tally = self.tally, empty_tally(self.world.device)
        objective, likelihood, guided, guided_words = self.world.sum(
            float(tally.objective), float(tally.likelihood), *tally.guided.tolist()
        )
        numbers = {
            "epoch": round(self.state.epochs, 3),
            "words": self.state.words,
            "loss": objective / tally.words,
            "perplexity": math.exp(min(likelihood / tally.words, 700.0)),
            "learning_rate": tally.rate,
            "gradient_norm": float(tally.norm),
            "words_per_second": tally.words / tally.seconds,
            "seconds": self.state.seconds,
        }
        if self.world.device.type == "cuda":
            numbers["card_mib"] = torch.cuda.max_memory_allocated(self.world.device) >> 20
            numbers["card_reserved_mib"] = torch.cuda.max_memory_reserved(self.world.device) >> 20
        if self.state.skipped:
            numbers["skipped"] = self.state.skipped
        links = ""
        if guided_words:
            numbers["guided"] = guided / guided_words
            links = f"  guided {numbers['guided']:.3f}"
        self.reporter.measure("train", self.state.update, numbers)
        self.reporter.say(
            f"epoch {numbers['epoch']:.2f}  update {self.state.update}  loss {numbers['loss']:.3f}"
            f"  ppl {numbers['perplexity']:.2f}{links}"
            f"  lr {numbers['learning_rate']:.3g}  {self._speed(tally)}"
        )
        if self.state.update == self.config.report_every and (
            warning := time_limit_warning(self.config, self.state)
        ):
            self.reporter.note(warning)


def seed_of(*numbers: int) -> int:
    """A seed that no other numbers give, as good as certainly."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)
