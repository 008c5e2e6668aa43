"""The optimizers to choose from; each is PyTorch's."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat
from torch import optim
from torch.optim.optimizer import ParamsT

from seq2attn.config.base import Config

UnitInterval = Annotated[float, Field(ge=0, lt=1)]
LearningRate = Annotated[float, Field(gt=0, le=1e30)]
"""A number that weights can be multiplied by."""


class AdamConfig(Config):
    """Adam (Kingma and Ba 2015), or AdamW, whose weight decay is apart (Loshchilov and Hutter 2019)."""

    kind: Literal["adam", "adamw"]
    lr: LearningRate = 1e-3
    """The learning rate that the schedule multiplies."""
    betas: tuple[UnitInterval, UnitInterval] = (0.9, 0.98)
    """Decay of the running averages of the gradient and of its square."""
    eps: PositiveFloat = 1e-9
    """Added to the denominator."""
    weight_decay: NonNegativeFloat = 0.0
    """L2 penalty of the weights; for `adamw`, the decoupled decay."""

    def build(self, parameters: ParamsT) -> optim.Optimizer:
        """The optimizer of `parameters`, or of groups of them."""
        kind = optim.Adam if self.kind == "adam" else optim.AdamW
        return kind(
            parameters,
            lr=self.lr,
            betas=self.betas,
            eps=self.eps,
            weight_decay=self.weight_decay,
            fused=True,
        )


class SGDConfig(Config):
    """Stochastic gradient descent, with momentum if wanted."""

    kind: Literal["sgd"]
    lr: LearningRate = 1.0
    """The learning rate that the schedule multiplies."""
    momentum: UnitInterval = 0.0
    """Share of the last step that is added to the next."""
    weight_decay: NonNegativeFloat = 0.0
    """L2 penalty of the weights."""

    def build(self, parameters: ParamsT) -> optim.Optimizer:
        """The optimizer of `parameters`, or of groups of them."""
        return optim.SGD(parameters, lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay, fused=True)


class AdadeltaConfig(Config):
    """Adadelta (Zeiler 2012), with which Bahdanau et al. 2015 trained."""

    kind: Literal["adadelta"]
    lr: LearningRate = 1.0
    """The learning rate that the schedule multiplies."""
    rho: UnitInterval = 0.95
    """Decay of the running averages."""
    eps: PositiveFloat = 1e-6
    """Added to the denominator."""
    weight_decay: NonNegativeFloat = 0.0
    """L2 penalty of the weights."""

    def build(self, parameters: ParamsT) -> optim.Optimizer:
        """The optimizer of `parameters`, or of groups of them."""
        return optim.Adadelta(parameters, lr=self.lr, rho=self.rho, eps=self.eps, weight_decay=self.weight_decay)


OptimizerConfig = Annotated[AdamConfig | SGDConfig | AdadeltaConfig, Field(discriminator="kind")]
