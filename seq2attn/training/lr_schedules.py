"""How the learning rate moves: each schedule is a function of where training stands, and keeps nothing itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from seq2attn.config.base import Config


@dataclass(frozen=True)
class Progress:
    """Where training stands when an update is about to be made."""

    update: int  # counted from 1
    epoch: float  # epochs that are over, the running one in part
    plateaus: int  # how often validation stopped getting better for as long as the schedule waits


Warmup = PositiveInt | Literal["auto"]


def num_warmup_updates(warmup: int | Literal["auto"]) -> int:
    """The warm-up, when it is known."""
    assert warmup != "auto", "replaced by a number before training"
    return warmup


class NoamConfig(Config):
    """factor * dim^-0.5 * min(update^-0.5, update * warmup^-1.5): Vaswani et al. 2017, eq. 3 (set `rate: 1`)."""

    kind: Literal["noam"]
    dim: PositiveInt
    """The width of the model."""
    warmup: Warmup = "auto"
    """Updates; auto: a tenth of those that `training.until` allows, at most 4,000."""
    factor: PositiveFloat = 1.0

    def multiplier(self, at: Progress) -> float:
        """What the optimiser's rate is multiplied by."""
        warmup = num_warmup_updates(self.warmup)
        return float(self.factor * self.dim**-0.5 * min(at.update**-0.5, at.update * warmup**-1.5))


class InverseSquareRootConfig(Config):
    """Rises to 1 over the warm-up, then falls with the square root of the updates."""

    kind: Literal["inverse-sqrt"]
    warmup: Warmup = "auto"
    """Updates; auto: a tenth of those that `training.until` allows, at most 4,000."""

    def multiplier(self, at: Progress) -> float:
        """What the optimiser's rate is multiplied by."""
        warmup = num_warmup_updates(self.warmup)
        return float(min(at.update / warmup, (warmup / at.update) ** 0.5))


class CosineConfig(Config):
    """Rises to 1 over the warm-up, then falls to `least` along half a cosine (Loshchilov and Hutter 2017, eq. 5)."""

    kind: Literal["cosine"]
    updates: PositiveInt
    """When `least` is reached."""
    warmup: NonNegativeInt = 0
    least: NonNegativeFloat = 0.0

    def multiplier(self, at: Progress) -> float:
        """What the optimiser's rate is multiplied by."""
        if at.update <= self.warmup:
            return at.update / self.warmup
        share = min(1.0, (at.update - self.warmup) / max(1, self.updates - self.warmup))
        return self.least + (1 - self.least) * (1 + math.cos(math.pi * share)) / 2


class ConstantConfig(Config):
    """Rises to 1 over the warm-up and stays there."""

    kind: Literal["constant"]
    warmup: NonNegativeInt = 0

    def multiplier(self, at: Progress) -> float:
        """What the optimiser's rate is multiplied by."""
        return min(1.0, at.update / self.warmup) if self.warmup else 1.0


class PlateauConfig(Config):
    """Falls by a factor when validation has not got better `patience` times in a row."""

    kind: Literal["plateau"]
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.5
    patience: PositiveInt = 2
    warmup: NonNegativeInt = 0

    def multiplier(self, at: Progress) -> float:
        """What the optimiser's rate is multiplied by."""
        rise = min(1.0, at.update / self.warmup) if self.warmup else 1.0
        return rise * self.factor**at.plateaus


class HalvingConfig(Config):
    """Stays at 1 for `start` epochs, then halves at once and with each epoch: Luong et al. 2015, section 4.1."""

    kind: Literal["halving"]
    start: NonNegativeFloat = 5.0
    every: PositiveFloat = 1.0
    """Epochs between halvings."""

    def multiplier(self, at: Progress) -> float:
        """What the optimiser's rate is multiplied by."""
        over = (at.epoch - self.start) / self.every
        return 1.0 if over < 0 else 0.5 ** (math.floor(over) + 1)


ScheduleConfig = Annotated[
    NoamConfig | InverseSquareRootConfig | CosineConfig | ConstantConfig | PlateauConfig | HalvingConfig,
    Field(discriminator="kind"),
]
