"""The training loop: epochs, updates, validations, reports and interruptions."""

from __future__ import annotations

import math
import time
from datetime import timedelta
from functools import partial
from typing import NoReturn

import numpy as np
import torch

from seq2attn.data.batch_planner import padding_ratio
from seq2attn.data.collate import prefetch
from seq2attn.data.corpus import Corpus
from seq2attn.data.prepare import PreparedData
from seq2attn.errors import TrainingInterrupted
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.losses.training_loss import TrainingLoss, update_baseline
from seq2attn.optim.ema import WeightAverage
from seq2attn.optim.lr_schedules import SchedulePoint
from seq2attn.training.auto_settings import time_limit_warning
from seq2attn.training.checkpoints.manager import CheckpointManager
from seq2attn.training.checkpoints.retention import remove_nonfinite_checkpoints
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.gradient_accumulation import (
    GradientAccumulator,
    MicroBatch,
    UpdateBatches,
    UpdateInputs,
    plan_updates,
)
from seq2attn.training.interruption import StopRequest, stop_reason
from seq2attn.training.memory_check import check_memory
from seq2attn.training.metrics_logger import MetricsLogger
from seq2attn.training.nonfinite import AttemptedUpdate, NonFiniteGuard, all_finite, nonfinite_flag
from seq2attn.training.train_state import (
    TrainMetrics,
    TrainState,
    elapsed,
    fraction_done,
    is_due,
    restore_metrics,
    zero_metrics,
)


class Trainer:
    """Training loop over a model, its data and its state."""

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
        decay = config.training.ema_decay
        self.average = None if decay is None else WeightAverage(optimizer, decay)
        self.nonfinite_guard = NonFiniteGuard(self.config.max_consecutive_skips, optimizer, world, reporter)
        self.memory_checked = False
        self.checkpoints = CheckpointManager(config, run, prepared, objective, optimizer, self.average, world, reporter)
        self.metrics = restore_metrics(state.unreported_metrics, world)
        self.state.unreported_metrics = []
        self.stop_request = stop
        self.should_stop = False  # agreed on by all processes
        self.clock = time.monotonic()  # end of the time that is counted in the state

    # ------------------------------------------------------------------ the loop

    def train(self) -> None:
        """Train until a limit of `max_duration`, or early stopping.

        Raises: TrainingInterrupted for a stop request, after a checkpoint; DivergedError after too many skipped updates
        in a row, or if weights or dev loss are not finite.
        """
        self.objective.train()
        self.checkpoints.recover(self.state)
        while not self._reached_limits():
            self._epoch()
        self._sync_skipped()
        if self.state.last_validated_update != self.state.update or not self.state.best_value:  # no comparable scores
            self._report()
            self._validate()
        self.reporter.close_bar()
        origin = self.checkpoints.finalize(self.state)
        time_used, command = timedelta(seconds=round(self.state.seconds)), "evaluate" if self.has_tests else "translate"
        limits = " and ".join(self._reached_limits())
        self.reporter.log_session(
            f"training ended after {time_used} and {self.state.update:,} updates ({limits}); weights for translation:"
            f" {origin}; next: seq2attn {command} {self.run.folder}"
        )

    def _epoch(self) -> None:
        """Train to the end of the epoch, or of the training."""
        self.clock = time.monotonic()
        corpus = self.prepared.train.epoch_corpus(self.config.seed, self.state.epoch)
        updates = self._plan(corpus)
        if not self.memory_checked:
            segmented = time.monotonic()
            check_memory(self.config, self.accumulator, self.optimizer, corpus, updates, self.state.reinforce_baseline)
            self.memory_checked = True
            self.clock += time.monotonic() - segmented  # not training
        self.reporter.start_epoch(self.state.epoch + 1, len(updates), self.state.updates_in_epoch)
        make_micro_batches = partial(self.accumulator.make_micro_batches, corpus)
        for micro_batches in prefetch(make_micro_batches, updates[self.state.updates_in_epoch :]):
            if self._train_step(corpus, micro_batches):
                self._validate()
            if self.should_stop:
                self._stop()
            if self._reached_limits():
                break

    def _train_step(self, corpus: Corpus, micro_batches: list[MicroBatch]) -> bool:
        """One update and its reports. Returns True if a validation is due."""
        before = elapsed(self.state)
        self._update(corpus, micro_batches)
        self.state.updates_in_epoch += 1
        if self.state.updates_in_epoch == self.state.updates_per_epoch:
            self.state.epoch, self.state.updates_in_epoch = self.state.epoch + 1, 0
        reports = self.state.update % self.config.report_every == 0
        if reports and self.world.device.type == "cuda":
            torch.cuda.synchronize(self.world.device)
        self._update_clock()
        validates = is_due(self.config.validation.every, before, elapsed(self.state))
        if validates or reports or self.should_stop:
            self._sync_skipped()
        self.reporter.update_progress(self._speed(self.metrics))
        if validates or reports:
            self._report()  # also before a checkpoint, which then has no unreported metrics
        return validates

    def _update_clock(self) -> None:
        """Count the time since the last call; agree on stop requests in the same exchange."""
        now = time.monotonic()
        share = (now - self.clock) / self.world.size
        seconds, exit_codes = self.world.all_reduce_sum(share, float(self.stop_request.exit_code))
        self.should_stop = exit_codes > 0
        self.clock = now
        self.state.seconds += seconds
        self.metrics.seconds += seconds

    def _update(self, corpus: Corpus, micro_batches: list[MicroBatch]) -> None:
        """One update from the micro-batches of all processes, with the gradient of one large batch."""
        state, metrics = self.state, self.metrics
        state.update += 1
        self._set_lr()
        (num_tokens,) = self.world.all_reduce_sum(float(sum(part.num_target_tokens for part in micro_batches)))
        seed = derive_seed(self.config.seed, state.update, self.world.rank)
        inputs = UpdateInputs(state.update, corpus, micro_batches, num_tokens, seed, state.reinforce_baseline)
        sums, micro_batches, num_tokens = self.accumulator.accumulate(inputs)
        max_norm = self.config.max_grad_norm or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.objective.parameters(), max_norm)
        loss = self.world.all_reduce_(sums.loss / max(num_tokens, 1.0))
        is_nonfinite = nonfinite_flag(loss, norm)
        rows = np.concatenate([part.rows for part in micro_batches] or [np.zeros(0, dtype=np.int64)])
        attempt = AttemptedUpdate(state.update, metrics.lr, rows, num_tokens, loss, norm, is_nonfinite)
        if self.nonfinite_guard.step(attempt) and self.average and micro_batches:  # else there is no gradient
            self.average.update(state.update, is_nonfinite)
        self.optimizer.zero_grad(set_to_none=True)
        metrics.update(sums, norm, is_nonfinite)
        metrics.num_target_tokens += num_tokens
        state.target_tokens += int(num_tokens)
        if sums.samples_attention or self.nonfinite_guard.should_sync:
            self._sync_skipped()
        if sums.samples_attention and not state.consecutive_skips:
            (total,) = self.world.all_reduce_sum(float(sums.negative_log_likelihood))
            state.reinforce_baseline = update_baseline(state.reinforce_baseline, -total / num_tokens)

    def _set_lr(self) -> None:
        at = SchedulePoint(self.state.update, self.state.epochs, self.state.num_lr_drops)
        lr = self.config.optimizer.lr * self.config.lr_schedule.lr_factor(at)
        for group in self.optimizer.param_groups:
            group["lr"] = lr * group["lr_scale"]
        self.metrics.lr = lr

    def _plan(self, corpus: Corpus) -> list[UpdateBatches]:
        """The updates of the epoch."""
        state = self.state
        rows = self.prepared.train.rows(self.config.seed, state.epoch)
        planned = plan_updates(corpus.lengths[rows], self.config, self.world, epoch=state.epoch)
        updates = [[rows[places] for places in update] for update in planned]
        if state.update == 0:
            batches = [batch for update in updates for batch in update]
            share = 0.0 if self.config.batch.padding_free else padding_ratio(corpus.lengths, batches)
            self.reporter.log(f"{len(updates)} updates per epoch, {share:.1%} padding")
        # With another batch size or number of processes, an epoch is resumed at the same fraction.
        done = state.updates_in_epoch * len(updates) // state.updates_per_epoch
        state.updates_in_epoch = min(done, len(updates) - 1)
        state.updates_per_epoch = len(updates)
        return updates

    # ------------------------------------------------------------------ divergence

    def _sync_skipped(self) -> None:
        """Count the skipped updates. Raises DivergedError after too many in a row."""
        num_tokens = self.nonfinite_guard.sync(self.state)
        self.state.target_tokens -= int(num_tokens)
        self.metrics.num_target_tokens -= num_tokens
        if self.nonfinite_guard.has_diverged:
            self._diverge(self.state.consecutive_skips)

    def _validate(self) -> None:
        """Validate and save. Raises DivergedError if weights or dev loss are not finite."""
        self._check_finite()
        if not self.checkpoints.validate_and_save(self.state):
            self._diverge(0)
        self.clock = time.monotonic()
        self._update_clock()  # for stop requests during validation

    def _check_finite(self) -> None:
        if not all_finite(self.objective.model, self.optimizer):
            self._diverge(0)

    def _diverge(self, skips: int) -> NoReturn:
        resumable = remove_nonfinite_checkpoints(self.run.folder) if self.world.is_main_process else None
        resumable = self.world.all_gather(resumable)[0]
        self.reporter.log_session(f"training has diverged at update {self.state.update}")
        raise self.nonfinite_guard.divergence_error(skips, self.prepared.train, resumable)

    # ------------------------------------------------------------------ limits and interruptions

    def _reached_limits(self) -> list[str]:
        """The keys of the limits that end the training."""
        patience, is_over = self.config.validation.patience, fraction_done(self.config.max_duration, self.state) >= 1
        is_late = patience is not None and self.state.validations_since_best >= patience
        return ["`training.max_duration`"] * is_over + ["`training.validation.patience`"] * is_late

    def _stop(self) -> None:
        """Save a checkpoint, and end this session."""
        if self.state.last_validated_update != self.state.update:  # else validation has saved it
            self._check_finite()
            self.state.unreported_metrics = self.world.all_gather(self.metrics.state_dict())
            self.checkpoints.save(self.state)
        self.reporter.close_bar()
        code = max(self.world.all_gather(self.stop_request.exit_code))
        message = f"stopped by {stop_reason(code)} after update {self.state.update:,}, checkpoint saved"
        self.reporter.log_session(message)
        raise TrainingInterrupted(message, code)

    def _speed(self, metrics: TrainMetrics) -> str:
        """Target tokens per second, and the remaining time by the fraction done."""
        share = fraction_done(self.config.max_duration, self.state)
        remaining = f", {self.state.seconds * max(0.0, 1 / share - 1) / 60:,.0f} min left" if share else ""
        speed = metrics.num_target_tokens / metrics.seconds if metrics.seconds else 0.0
        return f"{speed:,.0f} target tokens/s{remaining}"

    # ------------------------------------------------------------------ reports

    def _report(self) -> None:
        if not self.metrics.num_target_tokens:  # all updates were skipped
            return
        metrics, self.metrics = self.metrics, zero_metrics(self.world.device)
        loss, likelihood, guided, num_guided = self.world.all_reduce_sum(
            float(metrics.loss), float(metrics.negative_log_likelihood), *metrics.guided_alignment.tolist()
        )
        numbers = {
            "epoch": round(self.state.epochs, 3),
            "target_tokens": self.state.target_tokens,
            "loss": loss / metrics.num_target_tokens,
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
        if num_guided:
            numbers["guided_alignment_loss"] = guided / num_guided
        guided_text = f"  guided {numbers['guided_alignment_loss']:.3f}" if num_guided else ""
        self.reporter.log_metrics("train", self.state.update, numbers)
        self.reporter.log(
            f"epoch {numbers['epoch']:.2f}  update {self.state.update}  loss {numbers['loss']:.3f}"
            f"  ppl {numbers['perplexity']:.2f}{guided_text}  lr {numbers['learning_rate']:.3g}  {self._speed(metrics)}"
        )
        is_first = self.state.update == self.config.report_every
        if is_first and (warning := time_limit_warning(self.config, self.state)):
            self.reporter.log_session(warning)


def derive_seed(*numbers: int) -> int:
    """A random seed as a hash of `numbers`."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)
