"""The training loop: epochs, updates, validations and interruptions."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import NoReturn

import numpy as np
import torch
from tqdm import tqdm

from seq2attn.data.batch_planner import padding_ratio
from seq2attn.data.collate import MicroBatch, count_target_tokens, make_micro_batches
from seq2attn.data.corpus import Corpus
from seq2attn.data.prefetch import prefetch
from seq2attn.data.prepared_data import PreparedData
from seq2attn.errors import TrainingInterrupted
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.losses.training_loss import MAX_LOSS, LossOutput, TrainingLoss, update_baseline
from seq2attn.nn.device import is_oom_error
from seq2attn.nn.precision import autocast
from seq2attn.optim.ema import WeightAverage
from seq2attn.optim.lr_schedules import SchedulePoint
from seq2attn.training.checkpoints.keeper import CheckpointKeeper
from seq2attn.training.checkpoints.retention import remove_nonfinite_checkpoints, validated_checkpoints
from seq2attn.training.distributed import stop_reason
from seq2attn.training.memory import MakeMicroBatches, MemoryTrial, drop_gradients, exchange_error, reduce_micro_batches
from seq2attn.training.metrics_logger import Session, report_training, report_validation
from seq2attn.training.nonfinite import NonFiniteGuard, all_finite
from seq2attn.training.resolve import UpdateBatches, plan_updates
from seq2attn.training.train_state import (
    AttemptedUpdate,
    TrainState,
    describe_speed,
    elapsed,
    is_due,
    is_report_due,
    nonfinite_flag,
    reached_limits,
    restore_metrics,
    update_seed,
)
from seq2attn.training.validation import Validator, state_after_validation


class Trainer:
    """Training loop over a model, its data and its state."""

    def __init__(
        self,
        experiment: ExperimentConfig,
        prepared: PreparedData,
        loss_module: TrainingLoss,
        optimizer: torch.optim.Optimizer,
        state: TrainState,
        session: Session,
    ) -> None:
        training = experiment.training
        self.training = training
        self.prepared = prepared
        self.loss_module = loss_module
        self.optimizer = optimizer
        self.session = session
        self.distributed = session.distributed
        self.logger = session.logger
        self.wrapped = self.distributed.wrap_ddp(loss_module)
        if training.compile:
            loss_module.model.compile(dynamic=True)  # without the loss, which has its own chunked kernel
        self.average = None if training.ema_decay is None else WeightAverage(optimizer, training.ema_decay)
        self.nonfinite_guard = NonFiniteGuard(training.max_consecutive_skips, optimizer, session)
        self.validator = Validator(experiment, prepared, self.distributed)
        self.validation_every = training.validation.require_every()
        vocabularies = prepared.tokenizers.vocabularies
        self.checkpoints = CheckpointKeeper(training, vocabularies, loss_module, optimizer, self.average, session)
        self.metrics = restore_metrics(state.unreported_metrics, self.distributed)
        self.state = replace(state, unreported_metrics=[])
        self.next_command = "evaluate" if experiment.data.test else "translate"
        self.memory_is_checked = False
        self.should_stop = False  # agreed on by all processes
        self.clock = time.monotonic()  # end of the time that is counted in the state

    def train(self) -> None:
        """Train until a limit of `max_duration`, or early stopping.

        Raises TrainingInterrupted for a stop request, after a checkpoint; DivergedError after too many skipped updates
        in a row, or if weights or dev loss are not finite.
        """
        self.loss_module.train()
        self._recover()
        while not reached_limits(self.state, self.training):
            self._epoch()
        self._sync_skipped()
        if self.state.last_validated_update != self.state.update or not self.state.best_value:  # no comparable scores
            self.metrics = report_training(self.session, self.training, self.state, self.metrics)
            self._validate()
        origin = self.checkpoints.finalize(self.state, self.validator)
        limits, folder = " and ".join(reached_limits(self.state, self.training)), self.session.run.folder
        self.logger.log_session(
            f"training ended after {timedelta(seconds=round(self.state.seconds))} at update {self.state.update:,}"
            f" ({limits}); weights for translation: {origin}; next: seq2attn {self.next_command} {folder}"
        )

    def _epoch(self) -> None:
        """Train to the end of the epoch, or of the training."""
        self.clock = time.monotonic()
        corpus = self.prepared.train.epoch_corpus(self.training.seed, self.state.epoch)
        updates = self._plan(corpus)
        is_pinned = self.distributed.device.type != "cpu"
        make = partial(make_micro_batches, corpus, packed=self.training.batch.padding_free, pinned=is_pinned)
        if not self.memory_is_checked:
            self._check_memory(corpus, updates)
        done = self.state.updates_in_epoch
        with self.logger.progress_bar(self.state.epoch + 1, len(updates), done) as progress_bar:
            for micro_batches in prefetch(make, updates[done:]):
                before = elapsed(self.state)
                self.update(micro_batches, make)
                if self._finish_update(before, progress_bar):
                    self._validate()
                if self.should_stop:
                    self._stop()
                if reached_limits(self.state, self.training):
                    break

    def update(self, micro_batches: list[MicroBatch], make: MakeMicroBatches) -> None:
        """One update of all processes with the gradient of one large batch; parts that lack memory are halved."""
        self.state = replace(self.state, update=self.state.update + 1)
        (num_tokens,) = self.distributed.all_reduce_sum(count_target_tokens(micro_batches))
        sums, failed = self._forward_backward(micro_batches, num_tokens)
        while failed is not None:
            drop_gradients(self.loss_module)
            micro_batches = reduce_micro_batches(micro_batches, failed, make, self.state.update, self.session)
            if self.distributed.size == 1:  # else no pair is dropped
                num_tokens = count_target_tokens(micro_batches)
            sums, failed = self._forward_backward(micro_batches, num_tokens)
        norm = torch.nn.utils.clip_grad_norm_(self.loss_module.parameters(), self.training.max_grad_norm or math.inf)
        loss = self.distributed.all_reduce_(sums.loss / max(num_tokens, 1.0))
        lr = self._schedule()
        rows = np.concatenate([part.rows for part in micro_batches] or [np.zeros(0, dtype=np.int64)])
        attempt = AttemptedUpdate(self.state.update, lr, rows, num_tokens, loss, norm, nonfinite_flag(loss, norm))
        if self.nonfinite_guard.admits(attempt):
            self.optimizer.step()
            if self.average is not None and micro_batches:  # else there is no gradient
                self.average.update(self.state.update, attempt.is_nonfinite)
        self.optimizer.zero_grad(set_to_none=True)
        self._count(sums, attempt)

    def _forward_backward(
        self, micro_batches: list[MicroBatch], num_tokens: float
    ) -> tuple[LossOutput, MicroBatch | None]:
        """Forward and backward of all micro-batches: sums of their losses, and the first that did not fit in memory."""
        device, rank, size = self.distributed.device, self.distributed.rank, self.distributed.size
        update, baseline = self.state.update, self.state.reinforce_baseline
        torch.manual_seed(update_seed(self.training.seed, update, rank))  # a resumed run draws the same numbers
        sums = LossOutput.zeros(device)
        for micro_batch in micro_batches:
            is_last, is_exchanging = micro_batch is micro_batches[-1], False
            try:
                with self.distributed.exchange(self.wrapped, is_last):
                    with autocast(self.training.precision, device):
                        loss = self.wrapped(micro_batch.batch.to(device), baseline, update)
                    is_exchanging = is_last and size > 1
                    (loss.loss * (size / num_tokens)).backward()
            except (RuntimeError, MemoryError) as error:
                if not is_oom_error(error):
                    raise
                if is_exchanging:
                    raise exchange_error(rank) from None
                return sums, micro_batch
            sums = sums.add(loss)
        return sums, None

    def _schedule(self) -> float:
        """The learning rate of the update, which the optimizer gets."""
        at = SchedulePoint(self.state.update, self.state.epochs, self.state.num_lr_drops)
        lr = self.training.optimizer.lr * self.training.lr_schedule.lr_factor(at)
        for group in self.optimizer.param_groups:
            group["lr"] = lr * group["lr_scale"]
        return lr

    def _count(self, sums: LossOutput, attempt: AttemptedUpdate) -> None:
        """Add an update to metrics and state."""
        num_tokens = attempt.num_target_tokens
        self.metrics = self.metrics.add(sums, attempt)
        self.state = replace(self.state, target_tokens=self.state.target_tokens + int(num_tokens))
        if sums.samples_attention or self.nonfinite_guard.should_sync:
            self._sync_skipped()
        if sums.samples_attention and not self.state.consecutive_skips:
            (total,) = self.distributed.all_reduce_sum(float(sums.negative_log_likelihood))
            baseline = update_baseline(self.state.reinforce_baseline, -total / num_tokens)
            self.state = replace(self.state, reinforce_baseline=baseline)

    def _finish_update(self, before: dict[str, float], progress_bar: tqdm[NoReturn]) -> bool:
        """Place in the epoch, time and reports after an update. Returns True if a validation is due."""
        self.state = self.state.advance_in_epoch()
        self._update_clock()
        reports = is_report_due(self.training.report_every, before, elapsed(self.state))
        if reports and self.distributed.device.type == "cuda":
            torch.cuda.synchronize(self.distributed.device)
            self._update_clock()
        validates = is_due(self.validation_every, before, elapsed(self.state))
        if validates or reports or self.should_stop:
            self._sync_skipped()
        progress_bar.set_postfix_str(describe_speed(self.metrics, self.state, self.training), refresh=False)
        progress_bar.update()
        if validates or reports:
            # also before a checkpoint, which then has no unreported metrics
            self.metrics = report_training(self.session, self.training, self.state, self.metrics)
        return validates

    def _update_clock(self) -> None:
        """Count the time since the last call; agree on stop requests in the same exchange."""
        now = time.monotonic()
        share = (now - self.clock) / self.distributed.size
        seconds, exit_codes = self.distributed.all_reduce_sum(share, float(self.session.stop.exit_code))
        self.should_stop = exit_codes > 0
        self.clock = now
        self.state = replace(self.state, seconds=self.state.seconds + seconds)
        self.metrics = replace(self.metrics, seconds=self.metrics.seconds + seconds)

    def _plan(self, corpus: Corpus) -> list[UpdateBatches]:
        """The updates of the epoch."""
        state = self.state
        rows = self.prepared.train.rows(self.training.seed, state.epoch)
        planned = plan_updates(corpus.lengths[rows], self.training, self.distributed, epoch=state.epoch)
        updates = [[rows[places] for places in update] for update in planned]
        if state.update == 0:
            batches = [batch for update in updates for batch in update]
            share = 0.0 if self.training.batch.padding_free else padding_ratio(corpus.lengths, batches)
            self.logger.log(f"updates per epoch: {len(updates):,}, padding: {share:.1%}")
        self.state = state.with_updates_per_epoch(len(updates))
        return updates

    def _check_memory(self, corpus: Corpus, updates: list[UpdateBatches]) -> None:
        """Raises UserError if the largest micro-batches do not fit; compiles the model."""
        start = time.monotonic()
        trial = MemoryTrial(self.training, self.loss_module, self.optimizer, self.distributed)
        trial.check(corpus, updates, self.state.reinforce_baseline)
        seconds = time.monotonic() - start
        if self.training.compile:
            self.logger.log_session(f"compiled the model and checked memory in {seconds:.0f} s")
        self.memory_is_checked = True
        self.clock += seconds  # not training

    def _recover(self) -> None:
        """Complete what a kill interrupted; rank checkpoints again by another metric, or settings of scores."""
        before = self.state
        checkpoints = self.distributed.all_gather(validated_checkpoints(self.session.run.folder))[0]
        self.state, notes = self.validator.rank_again(before, checkpoints)
        for note in notes:
            self.logger.log_session(note)
        self.checkpoints.recover(self.state, is_changed=self.state != before)

    def _validate(self) -> None:
        """Validate and save. Raises DivergedError if weights or dev loss are not finite."""
        start = time.monotonic()
        if not all_finite(self.loss_module.model, self.optimizer):
            self._diverge(0)
        with self.checkpoints.averaged():
            result = self.validator.validate(self.loss_module)
            if not abs(result.scores["loss"]) <= MAX_LOSS:  # also of NaN
                self._diverge(0)
            (seconds,) = self.distributed.all_reduce_sum((time.monotonic() - start) / self.distributed.size)
            state = replace(self.state, seconds=self.state.seconds + seconds)
            self.state, is_best = state_after_validation(state, result.scores, self.training)
            report_validation(self.logger, self.validator, self.state, result, is_best=is_best)
            self.checkpoints.save(self.state, self.state.scores if is_best else None)
        self.clock = time.monotonic()
        self._update_clock()  # for stop requests during validation

    def _sync_skipped(self) -> None:
        """Count the skipped updates. Raises DivergedError after too many in a row."""
        tokens = self.state.target_tokens
        self.state = self.nonfinite_guard.sync(self.state)
        skipped = tokens - self.state.target_tokens
        self.metrics = replace(self.metrics, num_target_tokens=self.metrics.num_target_tokens - skipped)
        has_skipped = self.nonfinite_guard.first_skipped is not None  # not only before the training was resumed
        if has_skipped and self.state.consecutive_skips >= self.training.max_consecutive_skips:
            self._diverge(self.state.consecutive_skips)

    def _diverge(self, skips: int) -> NoReturn:
        is_main, folder = self.logger.is_main_process, self.session.run.folder  # not of a measurement of speed
        resumable = self.distributed.all_gather(remove_nonfinite_checkpoints(folder) if is_main else None)[0]
        self.logger.log_session(f"training has diverged at update {self.state.update}")
        raise self.nonfinite_guard.divergence_error(skips, self.prepared.train, resumable)

    def _stop(self) -> NoReturn:
        """Save a checkpoint, and end this session."""
        if self.state.last_validated_update != self.state.update:  # else validation has saved it
            if not all_finite(self.loss_module.model, self.optimizer):
                self._diverge(0)
            metrics = self.distributed.all_gather(self.metrics.state_dict())
            self.checkpoints.save_interrupted(replace(self.state, unreported_metrics=metrics))
        code = max(self.distributed.all_gather(self.session.stop.exit_code))
        message = f"stopped by {stop_reason(code)} after update {self.state.update:,}, checkpoint saved"
        self.logger.log_session(message)
        raise TrainingInterrupted(message, code)
