"""State of a training, as each checkpoint keeps it: progress, and sums since the last report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from seq2attn.config.duration import SECONDS, Duration
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.loss import LossSums


@dataclass
class TrainState:
    """Progress of a training, which resuming needs. Randomness is a function of seed and update."""

    update: int = 0
    epoch: int = 0
    updates_in_epoch: int = 0  # updates of the running epoch that are made
    updates_per_epoch: int = 1  # of the running epoch
    seconds: float = 0.0  # of training, over all sessions
    target_tokens: int = 0  # target tokens trained on
    last_validated_update: int = 0  # the last update after which there was a validation
    scores: dict[str, float] = field(default_factory=dict)  # of this validation: loss, BLEU ...
    texts: dict[str, dict[str, str]] = field(default_factory=dict)  # digests of the files of train and dev
    validation_digest: str = ""  # of sentences, references and settings that the scores are of
    metric: str = ""  # by which validations were ranked
    best_value: dict[str, float] = field(default_factory=dict)  # scores of the best validation
    best_update: int = 0
    validations_since_best: int = 0  # validations since the best
    validations_since_lr_drop: int = 0  # validations since the best or the last plateau
    zero_bleu: int = 0  # validations in a row in which BLEU was 0.00 while the loss fell
    num_lr_drops: int = 0
    reinforce_baseline: float | None = (
        None  # a target word's log-probability of late, where hard attention learns by drawing
    )
    num_skipped: int = 0  # updates whose loss or gradient was not finite
    consecutive_skips: int = 0  # of these, the last
    unreported_metrics: list[dict[str, float]] = field(default_factory=list)  # what each process has not reported yet

    @property
    def epochs(self) -> float:
        """Epochs that are over, the running one in part."""
        return self.epoch + self.updates_in_epoch / self.updates_per_epoch


def elapsed(state: TrainState) -> dict[str, float]:
    """How much has been trained, by unit."""
    times = {unit: state.seconds / seconds for unit, seconds in SECONDS.items()}
    return {"updates": state.update, "epochs": state.epochs, **times}


def fraction_done(until: Iterable[Duration], state: TrainState) -> float:
    """How much of the shortest of some durations is over: 1 at its end."""
    done = elapsed(state)
    return max(done[limit.unit] / limit.value for limit in until)


def is_due(every: Duration, before: dict[str, float], now: dict[str, float]) -> bool:
    """Whether a multiple of `every` was reached between two moments."""

    def times(moment: dict[str, float]) -> int:
        return math.floor(moment[every.unit] / every.value + 1e-9)  # three tenths over a tenth is not quite three

    return times(now) > times(before)


SUMMED_METRICS = ("loss", "negative_log_likelihood", "guided_alignment", "num_guided_tokens")


@dataclass
class TrainMetrics:
    """Sums of this process, on its device: reading them waits for it."""

    loss: Tensor  # [] summed over target tokens
    negative_log_likelihood: Tensor  # [] summed over target tokens
    guided_alignment: Tensor  # [2] of the links: summed, and over how many target tokens
    grad_norm: Tensor  # [] of the last update's gradient
    lr: float = 0.0  # of the last update
    num_target_tokens: float = 0.0  # of all processes
    seconds: float = 0.0

    def update(self, sums: LossSums, norm: Tensor, is_nonfinite: Tensor) -> None:
        """Adds the sums of an update and its gradient norm, unless `is_nonfinite` is 1."""
        skipped = is_nonfinite.bool()
        self.loss = torch.where(skipped, self.loss, sums.loss)
        self.negative_log_likelihood = torch.where(skipped, self.negative_log_likelihood, sums.negative_log_likelihood)
        self.guided_alignment = torch.where(skipped, self.guided_alignment, sums.guided_alignment)
        self.grad_norm = torch.where(skipped, self.grad_norm, norm)

    def state_dict(self) -> dict[str, float]:
        """Its content, exactly, as a checkpoint between two reports keeps it."""
        guided, num_guided_tokens = self.guided_alignment.tolist()
        return {
            "loss": float(self.loss),
            "negative_log_likelihood": float(self.negative_log_likelihood),
            "guided_alignment": guided,
            "num_guided_tokens": num_guided_tokens,
            "grad_norm": float(self.grad_norm),
            "lr": self.lr,
            "num_target_tokens": self.num_target_tokens,
            "seconds": self.seconds,
        }


def zero_metrics(device: torch.device) -> TrainMetrics:
    """Nothing yet."""
    zero = torch.zeros((), device=device)
    return TrainMetrics(zero.clone(), zero.clone(), zero.repeat(2), zero)


def restore_metrics(kept: Sequence[Mapping[str, float]], world: DistributedContext) -> TrainMetrics:
    """This process's of the `numbers` that all had; where there are other processes now, the first has all sums."""
    if not kept:
        return zero_metrics(world.device)
    mine = dict(kept[world.rank % len(kept)])
    if len(kept) != world.size:
        mine |= {name: sum(each[name] for each in kept) if world.is_main_process else 0.0 for name in SUMMED_METRICS}

    def tensor(*names: str) -> Tensor:
        return torch.tensor([mine[name] for name in names], dtype=torch.float32, device=world.device)

    return TrainMetrics(
        tensor("loss")[0],
        tensor("negative_log_likelihood")[0],
        tensor("guided_alignment", "num_guided_tokens"),
        tensor("grad_norm")[0],
        mine["lr"],
        mine["num_target_tokens"],
        mine["seconds"],
    )
