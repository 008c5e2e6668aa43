"""State of a training, as each checkpoint keeps it: progress, and sums since the last report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from seq2attn.config.duration import SECONDS, Duration
from seq2attn.losses.training_loss import LossSums
from seq2attn.training.distributed import DistributedContext

MetricsState = dict[str, float | list[float]]
"""Content of `TrainMetrics`, as JSON."""


@dataclass
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
    unreported_metrics: list[MetricsState] = field(default_factory=list)  # of each process, since the last report

    @property
    def epochs(self) -> float:
        """Epochs done, with the fraction of the current one."""
        # rounded once, as the number in a config is: 1 + 18 / 50 would be less than 1.36
        return (self.epoch * self.updates_per_epoch + self.updates_in_epoch) / self.updates_per_epoch


def elapsed(state: TrainState) -> dict[str, float]:
    """Progress in each unit of durations."""
    times = {unit: state.seconds / seconds for unit, seconds in SECONDS.items()}
    return {"updates": state.update, "epochs": state.epochs, **times}


def fraction_done(limits: Iterable[Duration], state: TrainState) -> float:
    """Progress towards the first of several limits: 1 when it is reached."""
    done = elapsed(state)
    return max(done[limit.unit] / limit.value for limit in limits)


def is_due(every: Duration, before: dict[str, float], now: dict[str, float]) -> bool:
    """True if a multiple of `every` was reached between two points of progress."""

    def multiples(progress: dict[str, float]) -> int:
        return math.floor(progress[every.unit] / every.value + 1e-9)  # 0.3 / 0.1 is slightly less than 3

    return multiples(now) > multiples(before)


@dataclass
class TrainMetrics:
    """Sums of this process since the last report, on its device."""

    loss: Tensor  # [] summed over target tokens
    negative_log_likelihood: Tensor  # [] summed over target tokens
    guided_alignment: Tensor  # [2] its loss, and number of aligned target tokens
    grad_norm: Tensor  # [] of the last update
    lr: float = 0.0  # of the last update
    num_target_tokens: float = 0.0  # of all processes
    seconds: float = 0.0

    def update(self, sums: LossSums, norm: Tensor, is_nonfinite: Tensor) -> None:
        """Adds the sums of an update, and sets its gradient norm, unless `is_nonfinite` is 1."""
        skipped = is_nonfinite.bool()
        self.loss += sums.loss.masked_fill(skipped, 0.0)
        self.negative_log_likelihood += sums.negative_log_likelihood.masked_fill(skipped, 0.0)
        self.guided_alignment += sums.guided_alignment.masked_fill(skipped, 0.0)
        self.grad_norm = torch.where(skipped, self.grad_norm, norm)

    def state_dict(self) -> MetricsState:
        """The exact content, for checkpoints between two reports."""
        return {k: v.tolist() if isinstance(v, Tensor) else v for k, v in vars(self).items()}


def zero_metrics(device: torch.device) -> TrainMetrics:
    """Metrics without any update."""
    zero = torch.zeros((), device=device)
    return TrainMetrics(zero.clone(), zero.clone(), zero.repeat(2), zero)


def restore_metrics(states: Sequence[MetricsState], world: DistributedContext) -> TrainMetrics:
    """Metrics of this process from the `state_dict` of each; zero for none, or those of other processes."""
    metrics = zero_metrics(world.device)
    if len(states) != world.size:
        return metrics
    for name, value in states[world.rank].items():
        is_tensor = isinstance(getattr(metrics, name), Tensor)
        setattr(metrics, name, torch.tensor(value, dtype=torch.float32, device=world.device) if is_tensor else value)
    return metrics
