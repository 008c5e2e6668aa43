"""State of a training, as each checkpoint keeps it: progress, and sums since the last report."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from seq2attn.config.duration import SECONDS, Duration
from seq2attn.data.batch_planner import Indices
from seq2attn.experiment.training_config import TrainingConfig
from seq2attn.losses.training_loss import MAX_LOSS, LossOutput
from seq2attn.training.distributed import DistributedContext

MetricsState = dict[str, float | list[float]]
"""Content of `TrainMetrics`, as JSON."""


@dataclass(frozen=True)
class TrainState:
    """Progress of a training, for resuming. Random numbers are not in it: they are a function of seed and update."""

    update: int = 0
    epoch: int = 0
    updates_in_epoch: int = 0  # updates done in the current epoch
    updates_per_epoch: int = 1  # of the current epoch
    seconds: float = 0.0  # of training, over all sessions
    target_tokens: int = 0  # trained on
    last_validated_update: int = 0
    scores: dict[str, float] = field(default_factory=dict)  # of the last validation: loss, BLEU ...
    texts: dict[str, dict[str, str]] = field(default_factory=dict)  # digests of the files of train and dev
    validation_digest: str = ""  # of the sentences, references and settings of validation
    metric: str = ""  # for ranking validations
    best_value: dict[str, float] = field(default_factory=dict)  # scores of the best validation
    best_update: int = 0
    validations_since_best: int = 0
    validations_since_lr_drop: int = 0  # validations since the best or the last plateau
    zero_bleu: int = 0  # validations in a row with BLEU 0.00 and falling loss
    num_lr_drops: int = 0
    reinforce_baseline: float | None = None  # moving average of a token's log-probability
    num_skipped: int = 0  # updates whose loss or gradient was not finite
    consecutive_skips: int = 0  # of these, the last in a row
    num_processes: int = 1
    total_is_auto: bool = False  # the schedule has `total_updates: auto`, and config.yaml the number
    planned_updates: int | None = None  # the last update of a schedule that was planned by the speed
    unreported_metrics: list[MetricsState] = field(default_factory=list)  # of each process, since the last report

    @property
    def epochs(self) -> float:
        """Epochs done, with the fraction of the current one."""
        # rounded once, as the number in a config is: 1 + 18 / 50 would be less than 1.36
        return (self.epoch * self.updates_per_epoch + self.updates_in_epoch) / self.updates_per_epoch

    def advance_in_epoch(self) -> Self:
        """The state with one more update done in the epoch."""
        ended, place = divmod(self.updates_in_epoch + 1, self.updates_per_epoch)
        return replace(self, epoch=self.epoch + ended, updates_in_epoch=place)

    def with_updates_per_epoch(self, number: int) -> Self:
        """The state for an epoch of `number` updates: with other batches or processes, at the same fraction of it."""
        done = min(self.updates_in_epoch * number // self.updates_per_epoch, number - 1)
        return replace(self, updates_in_epoch=done, updates_per_epoch=number)


def elapsed(state: TrainState) -> dict[str, float]:
    """Progress in each unit of durations."""
    times = {unit: state.seconds / seconds for unit, seconds in SECONDS.items()}
    return {"updates": state.update, "epochs": state.epochs, **times}


def fraction_done(state: TrainState, training: TrainingConfig) -> float:
    """Progress towards the first limit of the duration: 1 when it is reached.

    A planned schedule ends the training in the place of a time: it is complete also where the machine gets slower.
    """
    done, limits, planned = elapsed(state), training.max_duration, state.planned_updates
    if planned is None:
        return max(done[limit.unit] / limit.value for limit in limits)
    return max([state.update / max(1, planned), *(done[x.unit] / x.value for x in limits if x.unit not in SECONDS)])


def reached_limits(state: TrainState, training: TrainingConfig) -> list[str]:
    """The keys of the limits that end the training."""
    validation, is_over = training.validation, fraction_done(state, training) >= 1
    is_late = validation.patience is not None and state.validations_since_best >= validation.patience
    score, target = state.scores.get(validation.metric, math.nan), validation.target
    is_reached = target is not None and (score <= target if validation.metric == "loss" else score >= target)
    reached = {"max_duration": is_over, "validation.patience": is_late, "validation.target": is_reached}
    return [f"`training.{key}`" for key, is_true in reached.items() if is_true]


def update_seed(seed: int, update: int, rank: int) -> int:
    """The random seed of an update in a process."""
    return int(np.random.SeedSequence((seed, update, rank)).generate_state(1, np.uint64)[0] >> 1)


def is_due(every: Duration, before: dict[str, float], now: dict[str, float]) -> bool:
    """True if a multiple of `every` was reached between two points of progress."""
    # 0.3 / 0.1 is slightly less than 3
    old, new = (math.floor(progress[every.unit] / every.value + 1e-9) for progress in (before, now))
    return new > old


def is_report_due(every: Duration, before: dict[str, float], now: dict[str, float]) -> bool:
    """True if a report is due; for an interval of time, the first one comes after half of it."""
    is_first = every.unit in SECONDS and before[every.unit] < every.value / 2 <= now[every.unit]
    return is_first or is_due(every, before, now)


@dataclass(frozen=True)
class AttemptedUpdate:
    """An update that was made, or skipped because it was not finite."""

    update: int
    lr: float
    rows: Indices  # the pairs of this process
    num_target_tokens: float  # of all processes
    loss: Tensor  # [] per token, of all processes
    grad_norm: Tensor  # []
    is_nonfinite: Tensor  # [] 1 or 0


def nonfinite_flag(loss: Tensor, norm: Tensor) -> Tensor:
    """1 if the loss per token or the gradient norm is not finite, or the loss too large, else 0: [], [] -> []"""
    return (~(norm.isfinite() & (loss.abs() <= MAX_LOSS))).float()


@dataclass(frozen=True)
class TrainMetrics:
    """Sums of this process since the last report, on its device."""

    loss: Tensor  # [] summed over target tokens
    negative_log_likelihood: Tensor  # [] summed over target tokens
    guided_alignment: Tensor  # [2] its loss, and number of aligned target tokens
    grad_norm: Tensor  # [] of the last update
    lr: float = 0.0  # of the last update
    num_target_tokens: float = 0.0  # of all processes
    seconds: float = 0.0

    def add(self, sums: LossOutput, attempt: AttemptedUpdate) -> Self:
        """Metrics with one more update; its sums and its gradient norm only if it was not skipped."""
        skipped = attempt.is_nonfinite.bool()
        guided = torch.stack([sums.guided_alignment, sums.num_guided_tokens])
        return replace(
            self,
            loss=self.loss + sums.loss.masked_fill(skipped, 0.0),
            negative_log_likelihood=self.negative_log_likelihood
            + sums.negative_log_likelihood.masked_fill(skipped, 0.0),
            guided_alignment=self.guided_alignment + guided.masked_fill(skipped, 0.0),
            grad_norm=torch.where(skipped, self.grad_norm, attempt.grad_norm),
            lr=attempt.lr,
            num_target_tokens=self.num_target_tokens + attempt.num_target_tokens,
        )

    def state_dict(self) -> MetricsState:
        """The exact content, for checkpoints between two reports."""
        return {k: v.tolist() if isinstance(v, Tensor) else v for k, v in vars(self).items()}


def zero_metrics(device: torch.device) -> TrainMetrics:
    """Metrics without any update."""
    zero = torch.zeros((), device=device)
    return TrainMetrics(zero, zero, zero.repeat(2), zero)


def restore_metrics(states: Sequence[MetricsState], distributed: DistributedContext) -> TrainMetrics:
    """Metrics of this process from the `state_dict` of each; zero for none, or those of other processes."""
    zero = zero_metrics(distributed.device)
    if len(states) != distributed.size:
        return zero
    values: dict[str, Any] = {
        name: torch.tensor(value, device=distributed.device) if isinstance(vars(zero)[name], Tensor) else value
        for name, value in states[distributed.rank].items()
    }
    return TrainMetrics(**values)


def describe_speed(metrics: TrainMetrics, state: TrainState, training: TrainingConfig) -> str:
    """Target tokens per second, and the remaining time by the fraction done."""
    share = fraction_done(state, training)
    left = state.seconds * max(0.0, 1 / share - 1) if share else math.inf
    remaining = f", {left / 60:,.0f} min left" if 100 < left < math.inf else f", {left:.0f} s left" if share else ""
    speed = metrics.num_target_tokens / metrics.seconds if metrics.seconds else 0.0
    return f"{speed:,.0f} target tokens/s{remaining}"
