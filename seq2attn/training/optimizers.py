"""The optimisers to choose from; each is PyTorch's."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat
from torch import optim
from torch.optim.optimizer import ParamsT

from seq2attn.config.base import Config

Share = Annotated[float, Field(ge=0, lt=1)]
Rate = Annotated[float, Field(gt=0, le=1e30)]
"""A number that weights can be multiplied by."""


class AdamConfig(Config):
    """Adam (Kingma and Ba 2015), or AdamW, whose weight decay is apart (Loshchilov and Hutter 2019)."""

    kind: Literal["adam", "adamw"]
    rate: Rate = 1e-3
    """The learning rate that the schedule multiplies."""
    betas: tuple[Share, Share] = (0.9, 0.98)
    epsilon: PositiveFloat = 1e-9
    weight_decay: NonNegativeFloat = 0.0

    def build(self, parameters: ParamsT) -> optim.Optimizer:
        """The optimiser of `parameters`, or of groups of them."""
        kind = optim.Adam if self.kind == "adam" else optim.AdamW
        return kind(
            parameters,
            lr=self.rate,
            betas=self.betas,
            eps=self.epsilon,
            weight_decay=self.weight_decay,
            fused=True,
        )


class SGDConfig(Config):
    """Stochastic gradient descent, with momentum if wanted."""

    kind: Literal["sgd"]
    rate: Rate = 1.0
    """The learning rate that the schedule multiplies."""
    momentum: Share = 0.0
    weight_decay: NonNegativeFloat = 0.0

    def build(self, parameters: ParamsT) -> optim.Optimizer:
        """The optimiser of `parameters`, or of groups of them."""
        return optim.SGD(
            parameters, lr=self.rate, momentum=self.momentum, weight_decay=self.weight_decay, fused=True
        )


class AdadeltaConfig(Config):
    """Adadelta (Zeiler 2012), with which Bahdanau et al. 2015 trained."""

    kind: Literal["adadelta"]
    rate: Rate = 1.0
    """The learning rate that the schedule multiplies."""
    rho: Share = 0.95
    epsilon: PositiveFloat = 1e-6
    weight_decay: NonNegativeFloat = 0.0

    def build(self, parameters: ParamsT) -> optim.Optimizer:
        """The optimiser of `parameters`, or of groups of them."""
        return optim.Adadelta(
            parameters, lr=self.rate, rho=self.rho, eps=self.epsilon, weight_decay=self.weight_decay
        )


OptimizerConfig = Annotated[AdamConfig | SGDConfig | AdadeltaConfig, Field(discriminator="kind")]
