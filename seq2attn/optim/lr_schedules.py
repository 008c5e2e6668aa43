"""Learning-rate schedules: stateless functions of the progress of training."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from seq2attn.config.base import Config

Updates = PositiveInt | Literal["auto"]


@dataclass(frozen=True)
class SchedulePoint:
    """Progress of training at an update."""

    update: int  # counted from 1
    epoch: float  # epochs done, with the fraction of the current one
    num_lr_drops: int  # plateaus of the validation metric so far


def _resolved(updates: int | Literal["auto"]) -> int:
    assert updates != "auto", "replaced by a number before training"
    return updates


def _linear_warmup(at: SchedulePoint, warmup: int) -> float:
    return min(1.0, at.update / warmup) if warmup else 1.0


class NoamScheduleConfig(Config):
    """dim^-0.5 * min(update^-0.5, update * warmup^-1.5): Vaswani et al. 2017, eq. 3 (set `lr: 1`)."""

    kind: Literal["noam"] = "noam"
    dim: PositiveInt
    """The width of the model."""
    warmup_updates: Updates = "auto"
    """Updates; auto: a tenth of those that `training.max_duration` allows, at most 4,000."""

    def lr_factor(self, at: SchedulePoint) -> float:
        """The factor of the optimizer's learning rate."""
        warmup = _resolved(self.warmup_updates)
        return float(self.dim**-0.5 * min(at.update**-0.5, at.update * warmup**-1.5))


class InverseSquareRootScheduleConfig(Config):
    """Linear warm-up to 1, then decay with the square root of the updates."""

    kind: Literal["inverse-sqrt"] = "inverse-sqrt"
    warmup_updates: Updates = "auto"
    """Updates; auto: a tenth of those that `training.max_duration` allows, at most 4,000."""

    def lr_factor(self, at: SchedulePoint) -> float:
        """The factor of the optimizer's learning rate."""
        warmup = _resolved(self.warmup_updates)
        return float(min(at.update / warmup, (warmup / at.update) ** 0.5))


class CosineScheduleConfig(Config):
    """Linear warm-up to 1, then half a cosine down to `min_lr_factor` (Loshchilov and Hutter 2017, eq. 5)."""

    kind: Literal["cosine"] = "cosine"
    total_updates: Updates = "auto"
    """The update at which `min_lr_factor` is reached; auto: the last that `training.max_duration` allows. Where that
    has a time, the speed is measured at the start, and the training ends at this update and not by the clock."""
    warmup_updates: NonNegativeInt | Literal["auto"] = "auto"
    """Updates over which the learning rate rises linearly; auto: a tenth of those that `training.max_duration` allows,
    at most 4,000."""
    min_lr_factor: NonNegativeFloat = 0.0
    """The smallest factor of the learning rate, reached at the end."""

    def lr_factor(self, at: SchedulePoint) -> float:
        """The factor of the optimizer's learning rate."""
        warmup = _resolved(self.warmup_updates)
        if at.update <= warmup:
            return _linear_warmup(at, warmup)
        done = min(1.0, (at.update - warmup) / max(1, _resolved(self.total_updates) - warmup))
        return self.min_lr_factor + (1 - self.min_lr_factor) * (1 + math.cos(math.pi * done)) / 2


class ConstantScheduleConfig(Config):
    """Linear warm-up to 1, then constant."""

    kind: Literal["constant"] = "constant"
    warmup_updates: NonNegativeInt = 0
    """Updates over which the learning rate rises linearly."""

    def lr_factor(self, at: SchedulePoint) -> float:
        """The factor of the optimizer's learning rate."""
        return _linear_warmup(at, self.warmup_updates)


class PlateauScheduleConfig(Config):
    """Decay by a factor after `patience` validations in a row without improvement."""

    kind: Literal["plateau"] = "plateau"
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """The learning rate is multiplied by this at a plateau."""
    patience: PositiveInt = 2
    """Validations without improvement that make a plateau."""
    warmup_updates: NonNegativeInt = 0
    """Updates over which the learning rate rises linearly."""

    def lr_factor(self, at: SchedulePoint) -> float:
        """The factor of the optimizer's learning rate."""
        return _linear_warmup(at, self.warmup_updates) * self.factor**at.num_lr_drops


class HalvingScheduleConfig(Config):
    """Constant until `start_epoch`, then halved at once and every `every_epochs` (Luong et al. 2015, section 4.1)."""

    kind: Literal["halving"] = "halving"
    start_epoch: NonNegativeFloat = 5.0
    """Epochs before the first halving."""
    every_epochs: PositiveFloat = 1.0
    """Epochs between halvings."""

    def lr_factor(self, at: SchedulePoint) -> float:
        """The factor of the optimizer's learning rate."""
        over = (at.epoch - self.start_epoch) / self.every_epochs + 1e-9  # 0.3 / 0.1 is slightly less than 3
        return 1.0 if over < 0 else 0.5 ** (math.floor(over) + 1)


LRScheduleConfig = Annotated[
    NoamScheduleConfig
    | InverseSquareRootScheduleConfig
    | CosineScheduleConfig
    | ConstantScheduleConfig
    | PlateauScheduleConfig
    | HalvingScheduleConfig,
    Field(discriminator="kind"),
]


def warmup_updates(schedule: LRScheduleConfig) -> Updates | Literal[0]:
    """Updates over which the learning rate rises."""
    return 0 if isinstance(schedule, HalvingScheduleConfig) else schedule.warmup_updates


def total_updates(schedule: LRScheduleConfig) -> Updates | None:
    """The update at which the schedule ends; None if it does not."""
    return schedule.total_updates if isinstance(schedule, CosineScheduleConfig) else None


def resolve_schedule(schedule: LRScheduleConfig, *, warmup: Updates | Literal[0], total: Updates) -> LRScheduleConfig:
    """The schedule with these numbers for `auto`."""
    numbers = {"warmup_updates": warmup} if warmup_updates(schedule) == "auto" else {}
    if total_updates(schedule) == "auto":
        numbers["total_updates"] = total
    return schedule.model_copy(update=numbers)
