"""Training: from a config to a run directory with a model that translates."""

from __future__ import annotations

import math
import time
from datetime import timedelta
from functools import partial
from typing import NoReturn

import numpy as np
import torch

from seq2attn.data.batch_planner import padding_ratio
from seq2attn.data.corpus import Corpus
from seq2attn.data.prefetch import prefetch
from seq2attn.data.prepare import PreparedData
from seq2attn.errors import TrainingInterrupted
from seq2attn.experiment import ExperimentConfig
from seq2attn.run_directory import RunDirectory
from seq2attn.training.auto_settings import time_limit_warning
from seq2attn.training.checkpoints.manager import CheckpointManager
from seq2attn.training.checkpoints.retention import drop_unsound
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.gradient_accumulation import GradientAccumulator, MicroBatch, UpdateInputs
from seq2attn.training.interruption import StopRequest, stop_reason
from seq2attn.training.loss import LossSums, TrainingLoss
from seq2attn.training.lr_schedules import SchedulePoint
from seq2attn.training.memory_check import check_memory
from seq2attn.training.metrics_logger import MetricsLogger
from seq2attn.training.nonfinite import (
    AttemptedUpdate,
    NonFiniteGuard,
    all_finite,
    divergence_error,
    is_usable_loss,
    nonfinite_flag,
    trained_tensors,
)
from seq2attn.training.reinforce import update_baseline
from seq2attn.training.train_state import (
    TrainMetrics,
    TrainState,
    elapsed,
    fraction_done,
    is_due,
    restore_metrics,
    zero_metrics,
)
from seq2attn.training.update_planner import UpdateBatches, plan_updates
from seq2attn.training.validation import describe


class Trainer:
    """One training: its parts, and where it stands."""

    def __init__(
        self,
        config: ExperimentConfig,
        run: RunDirectory,
        prepared: PreparedData,
        objective: TrainingLoss,
        optimizer: torch.optim.Optimizer,
        state: TrainState,
        world: DistributedContext,
        reporter: MetricsLogger,
        stop: StopRequest,
    ) -> None:
        self.run, self.config, self.has_tests = run, config.training, bool(config.data.test)
        self.prepared, self.world, self.reporter = prepared, world, reporter
        self.objective, self.optimizer, self.state = objective, optimizer, state
        self.accumulator = GradientAccumulator(config.training, objective, world, reporter)
        max_skips = config.training.max_consecutive_skips
        self.nonfinite_guard = NonFiniteGuard(max_skips, optimizer, world, reporter)
        self.memory_checked = False
        self.checkpoints = CheckpointManager(config, run, prepared, objective, optimizer, world, reporter)
        self.metrics = restore_metrics(state.unreported_metrics, world)
        self.state.unreported_metrics = []
        self.stop_request = stop
        self.should_stop = False  # what all processes have agreed on
        self.clock = time.monotonic()  # what came before it is counted

    # ------------------------------------------------------------------ the loop

    def train(self) -> None:
        """Until one of the durations is over, or validation has stopped getting better.

        Raises: TrainingInterrupted when it was asked to stop before its end, after a checkpoint; DivergedError when too
        many updates are skipped in a row, or weights or dev loss are not finite.
        """
        self.objective.train()
        self.checkpoints.recover(self.state)
        while not self._reached_limit():
            self._epoch()
        self._sync_skipped()
        if self.state.last_validated_update != self.state.update:
            self._report()
            self._validate()
        self.reporter.close_bar()
        origin, scores = self.checkpoints.finalize(self.state)
        self.reporter.log_session(self._ended(origin, scores))

    def _ended(self, origin: str, scores: dict[str, float]) -> str:
        state = self.state
        command = "evaluate" if self.has_tests else "translate"
        return (
            f"training ended after {timedelta(seconds=round(state.seconds))} and {state.update:,} updates; translations"
            f" are by {origin} ({describe(scores)}); next: seq2attn {command} {self.run.folder}"
        )

    def _epoch(self) -> None:
        """To the end of the epoch, unless training ends before."""
        corpus = self.prepared.train.epoch_corpus(self.config.seed, self.state.epoch)
        updates = self._plan(corpus)
        if not self.memory_checked:
            check_memory(self.accumulator, self.optimizer, corpus, updates, self.state.reinforce_baseline)
            self.memory_checked = True
        self.reporter.start_epoch(self.state.epoch + 1, len(updates), self.state.updates_in_epoch)
        self.clock = time.monotonic()
        make = partial(self.accumulator.make_micro_batches, corpus)
        for parts in prefetch(make, updates[self.state.updates_in_epoch :]):
            if self._train_step(corpus, parts):
                self._validate()
            if self.should_stop:
                self._stop()
            if self._reached_limit():
                break

    def _train_step(self, corpus: Corpus, parts: list[MicroBatch]) -> bool:
        """One update, and its reports; whether it is time to validate."""
        before = elapsed(self.state)
        self._update(corpus, parts)
        self.state.updates_in_epoch += 1
        if self.state.updates_in_epoch == self.state.updates_per_epoch:
            self.state.epoch, self.state.updates_in_epoch = self.state.epoch + 1, 0
        reports = self.state.update % self.config.report_every == 0
        if reports:
            self.world.synchronize()
        self._update_clock()
        validates = is_due(self.config.validation.every, before, elapsed(self.state))
        if validates or reports or self.should_stop:
            self._sync_skipped()
        if validates or reports:
            self._report()  # before a checkpoint too, so that none has to keep what was not reported yet
        self.reporter.update_progress(self._speed(self.metrics))
        return validates

    def _update_clock(self) -> None:
        """Count the time since the clock was set, and set it; agree on whether to stop, which then costs no more."""
        now = time.monotonic()
        share = (now - self.clock) / self.world.size
        seconds, asked = self.world.all_reduce_sum(share, float(self.stop_request.exit_code))
        self.should_stop = asked > 0
        self.clock = now
        self.state.seconds += seconds
        self.metrics.seconds += seconds

    def _update(self, corpus: Corpus, parts: list[MicroBatch]) -> None:
        """Learn from the parts together, as if they were one with those of all processes."""
        state, metrics = self.state, self.metrics
        state.update += 1
        self._set_lr()
        (num_tokens,) = self.world.all_reduce_sum(float(sum(part.num_target_tokens for part in parts)))
        seed = derive_seed(self.config.seed, state.update, self.world.rank)
        before = LossSums(metrics.loss, metrics.negative_log_likelihood, metrics.guided_alignment)
        work = UpdateInputs(state.update, corpus, parts, num_tokens, seed, state.reinforce_baseline)
        sums, parts, num_tokens = self.accumulator.accumulate(work, before)
        max_norm = self.config.max_grad_norm or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.objective.parameters(), max_norm)
        loss = self.world.all_reduce_((sums.loss - before.loss) / max(num_tokens, 1.0))
        is_nonfinite = nonfinite_flag(loss, norm)
        rows = np.concatenate([part.rows for part in parts] or [np.zeros(0, dtype=np.int64)])
        attempt = AttemptedUpdate(state.update, metrics.lr, rows, num_tokens, loss, norm, is_nonfinite)
        self.nonfinite_guard.step(attempt)
        self.optimizer.zero_grad(set_to_none=True)
        metrics.update(sums, norm, is_nonfinite)
        metrics.num_target_tokens += num_tokens
        state.target_tokens += int(num_tokens)
        if sums.samples_attention or self.nonfinite_guard.should_sync:
            self._sync_skipped()
        if sums.samples_attention and not state.consecutive_skips:
            added = float(sums.negative_log_likelihood - before.negative_log_likelihood)
            (lost,) = self.world.all_reduce_sum(added)
            state.reinforce_baseline = update_baseline(state.reinforce_baseline, -lost / num_tokens)

    def _set_lr(self) -> None:
        at = SchedulePoint(self.state.update, self.state.epochs, self.state.num_lr_drops)
        rate = self.config.optimizer.lr * self.config.lr_schedule.lr_factor(at)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["share"]
        self.metrics.lr = self.optimizer.param_groups[0]["lr"]

    def _plan(self, corpus: Corpus) -> list[UpdateBatches]:
        """The epoch's updates."""
        state = self.state
        rows = self.prepared.train.rows(self.config.seed, state.epoch)
        planned = plan_updates(corpus.lengths[rows], self.config, self.world, epoch=state.epoch)
        updates = [[rows[part] for part in update] for update in planned]
        if state.update == 0:
            share = padding_ratio(corpus.lengths, [part for update in updates for part in update])
            self.reporter.log(f"{len(updates)} updates an epoch, {share:.1%} padding")
        # Resumed with another budget or number of processes, an epoch is resumed at the same fraction.
        done = state.updates_in_epoch * len(updates) // state.updates_per_epoch
        state.updates_in_epoch = min(done, len(updates) - 1)
        state.updates_per_epoch = len(updates)
        return updates

    # ------------------------------------------------------------------ what is not finite

    def _sync_skipped(self) -> None:
        """Count the skipped updates. Raises: DivergedError after too many in a row."""
        num_tokens = self.nonfinite_guard.sync(self.state)
        self.state.target_tokens -= int(num_tokens)
        self.metrics.num_target_tokens -= num_tokens
        if self.nonfinite_guard.should_roll_back:
            self._diverge(self.state.consecutive_skips)

    def _validate(self) -> None:
        """Try the model and save it. Raises DivergedError if its weights or the loss are not finite."""
        self._check_finite()
        if not is_usable_loss(self.checkpoints.validate_and_save(self.state)):
            self._diverge(0)
        self.clock = time.monotonic()
        self._update_clock()  # a process may have been asked to stop meanwhile

    def _check_finite(self) -> None:
        if not all_finite(trained_tensors(self.objective.model, self.optimizer)):
            self._diverge(0)

    def _diverge(self, skips: int) -> NoReturn:
        resumable = drop_unsound(self.run.folder) if self.world.is_main_process else None
        resumable = self.world.all_gather(resumable)[0]
        self.reporter.log_session(f"training has diverged at update {self.state.update}")
        first = self.nonfinite_guard.first_bad_update(self.state)
        raise divergence_error(first, skips, self.prepared.train, resumable)

    # ------------------------------------------------------------------ where it stands

    def _reached_limit(self) -> bool:
        patience = self.config.validation.patience
        return fraction_done(self.config.max_duration, self.state) >= 1 or (
            patience is not None and self.state.validations_since_best >= patience
        )

    def _stop(self) -> None:
        """Save a checkpoint, and end this session."""
        if self.state.last_validated_update != self.state.update:  # else it was saved just now
            self._check_finite()
            self.state.unreported_metrics = self.world.all_gather(self.metrics.state_dict())
            self.checkpoints.save(self.state)
        self.reporter.close_bar()
        code = max(self.world.all_gather(self.stop_request.exit_code))
        why = f"stopped by {stop_reason(code)} after update {self.state.update:,}, saved"
        self.reporter.log_session(why)
        raise TrainingInterrupted(why, code)

    def _speed(self, metrics: TrainMetrics) -> str:
        """Target tokens a second, and how long training takes at most, by how much of it is over."""
        share = fraction_done(self.config.max_duration, self.state)
        minutes = self.state.seconds * max(0.0, 1 / share - 1) / 60 if share else math.nan
        rate = metrics.num_target_tokens / metrics.seconds if metrics.seconds else 0.0
        left = f", {minutes:,.0f} min left" if share else ""
        return f"{rate:,.0f} target tokens/s{left}"

    # ------------------------------------------------------------------ reports

    def _report(self) -> None:
        if not self.metrics.num_target_tokens:  # all was skipped
            return
        metrics, self.metrics = self.metrics, zero_metrics(self.world.device)
        objective, likelihood, guided, guided_words = self.world.all_reduce_sum(
            float(metrics.loss), float(metrics.negative_log_likelihood), *metrics.guided_alignment.tolist()
        )
        numbers = {
            "epoch": round(self.state.epochs, 3),
            "target_tokens": self.state.target_tokens,
            "loss": objective / metrics.num_target_tokens,
            "perplexity": math.exp(min(likelihood / metrics.num_target_tokens, 700.0)),
            "learning_rate": metrics.lr,
            "gradient_norm": float(metrics.grad_norm),
            "target_tokens_per_second": metrics.num_target_tokens / metrics.seconds,
            "seconds": self.state.seconds,
        }
        if self.world.device.type == "cuda":
            numbers["gpu_memory_mib"] = torch.cuda.max_memory_allocated(self.world.device) >> 20
            numbers["gpu_reserved_mib"] = torch.cuda.max_memory_reserved(self.world.device) >> 20
        if self.state.num_skipped:
            numbers["skipped"] = self.state.num_skipped
        if guided_words:
            numbers["guided_alignment_loss"] = guided / guided_words
        links = f"  guided {numbers['guided_alignment_loss']:.3f}" if guided_words else ""
        self.reporter.log_metrics("train", self.state.update, numbers)
        self.reporter.log(
            f"epoch {numbers['epoch']:.2f}  update {self.state.update}  loss {numbers['loss']:.3f}"
            f"  ppl {numbers['perplexity']:.2f}{links}"
            f"  lr {numbers['learning_rate']:.3g}  {self._speed(metrics)}"
        )
        is_first = self.state.update == self.config.report_every
        if is_first and (warning := time_limit_warning(self.config, self.state)):
            self.reporter.log_session(warning)


def derive_seed(*numbers: int) -> int:
    """A seed that no other numbers give, as good as certainly."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)
