"""Learning-rate schedules: stateless functions of the progress of training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from seq2attn.config.base import Config


@dataclass(frozen=True)
class SchedulePoint:
    """Where training stands when an update is about to be made."""

    update: int  # counted from 1
    epoch: float  # epochs that are over, the running one in part
    num_lr_drops: int  # how often validation stopped getting better for as long as the schedule waits


Warmup = PositiveInt | Literal["auto"]


def num_warmup_updates(warmup: int | Literal["auto"]) -> int:
    """The warm-up, when it is known."""
    assert warmup != "auto", "replaced by a number before training"
    return warmup


class NoamScheduleConfig(Config):
    """factor * dim^-0.5 * min(update^-0.5, update * warmup^-1.5): Vaswani et al. 2017, eq. 3 (set `lr: 1`)."""

    kind: Literal["noam"]
    dim: PositiveInt
    """The width of the model."""
    warmup_updates: Warmup = "auto"
    """Updates; auto: a tenth of those that `training.max_duration` allows, at most 4,000."""
    factor: PositiveFloat = 1.0
    """Factor of the whole schedule."""

    def lr_factor(self, at: SchedulePoint) -> float:
        """The factor of the optimizer's learning rate."""
        warmup = num_warmup_updates(self.warmup_updates)
        return float(self.factor * self.dim**-0.5 * min(at.update**-0.5, at.update * warmup**-1.5))


class InverseSquareRootScheduleConfig(Config):
    """Rises to 1 over the warm-up, then falls with the square root of the updates."""

    kind: Literal["inverse-sqrt"]
    warmup_updates: Warmup = "auto"
    """Updates; auto: a tenth of those that `training.max_duration` allows, at most 4,000."""

    def lr_factor(self, at: SchedulePoint) -> float:
        """The factor of the optimizer's learning rate."""
        warmup = num_warmup_updates(self.warmup_updates)
        return float(min(at.update / warmup, (warmup / at.update) ** 0.5))


class CosineScheduleConfig(Config):
    """Rises to 1 in the warm-up, then falls to `min_lr_factor` as half a cosine (Loshchilov and Hutter 2017, eq. 5)."""

    kind: Literal["cosine"]
    total_updates: PositiveInt
    """The update at which `min_lr_factor` is reached."""
    warmup_updates: NonNegativeInt = 0
    """Updates over which the learning rate rises linearly."""
    min_lr_factor: NonNegativeFloat = 0.0
    """The smallest factor of the learning rate, reached at the end."""

    def lr_factor(self, at: SchedulePoint) -> float:
        """The factor of the optimizer's learning rate."""
        if at.update <= self.warmup_updates:
            return at.update / self.warmup_updates
        share = min(1.0, (at.update - self.warmup_updates) / max(1, self.total_updates - self.warmup_updates))
        return self.min_lr_factor + (1 - self.min_lr_factor) * (1 + math.cos(math.pi * share)) / 2


class ConstantScheduleConfig(Config):
    """Rises to 1 over the warm-up and stays there."""

    kind: Literal["constant"]
    warmup_updates: NonNegativeInt = 0
    """Updates over which the learning rate rises linearly."""

    def lr_factor(self, at: SchedulePoint) -> float:
        """The factor of the optimizer's learning rate."""
        return min(1.0, at.update / self.warmup_updates) if self.warmup_updates else 1.0


class PlateauScheduleConfig(Config):
    """Falls by a factor when validation has not got better `patience` times in a row."""

    kind: Literal["plateau"]
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """The learning rate is multiplied by this at a plateau."""
    patience: PositiveInt = 2
    """Validations without improvement that make a plateau."""
    warmup_updates: NonNegativeInt = 0
    """Updates over which the learning rate rises linearly."""

    def lr_factor(self, at: SchedulePoint) -> float:
        """The factor of the optimizer's learning rate."""
        rise = min(1.0, at.update / self.warmup_updates) if self.warmup_updates else 1.0
        return rise * self.factor**at.num_lr_drops


class HalvingScheduleConfig(Config):
    """Stays at 1 until `start_epoch`, then halves at once and with each epoch: Luong et al. 2015, section 4.1."""

    kind: Literal["halving"]
    start_epoch: NonNegativeFloat = 5.0
    """Epochs before the first halving."""
    every_epochs: PositiveFloat = 1.0
    """Epochs between halvings."""

    def lr_factor(self, at: SchedulePoint) -> float:
        """The factor of the optimizer's learning rate."""
        over = (at.epoch - self.start_epoch) / self.every_epochs
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
