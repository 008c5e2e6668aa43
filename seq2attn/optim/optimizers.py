"""Optimizers of PyTorch, and their parameter groups."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat
from torch import nn, optim
from torch.optim.optimizer import ParamsT

from seq2attn.config.base import Config, FieldError
from seq2attn.models.build import select_parameters

UnitInterval = Annotated[float, Field(ge=0, lt=1)]
LearningRate = Annotated[float, Field(gt=0, le=1e30, description="Learning rate, which the schedule multiplies.")]
"""A learning rate that does not overflow when it is multiplied by a weight."""


class AdamConfig(Config):
    """Adam (Kingma and Ba 2015), or AdamW, with decoupled weight decay (Loshchilov and Hutter 2019)."""

    kind: Literal["adam", "adamw"]
    lr: LearningRate = 1e-3
    betas: tuple[UnitInterval, UnitInterval] = (0.9, 0.98)
    """Decay of the running averages of the gradient and of its square."""
    eps: PositiveFloat = 1e-9
    """Added to the denominator."""
    weight_decay: NonNegativeFloat = 0.0
    """L2 penalty of the weights; for `adamw`, the decoupled decay."""

    def build(self, parameters: ParamsT) -> optim.Optimizer:
        """The optimizer of `parameters`, or of groups of them."""
        cls = optim.Adam if self.kind == "adam" else optim.AdamW
        return cls(parameters, **self.model_dump(exclude={"kind"}), fused=True)


class SGDConfig(Config):
    """Stochastic gradient descent, with optional momentum."""

    kind: Literal["sgd"] = "sgd"
    lr: LearningRate = 1.0
    momentum: UnitInterval = 0.0
    """Share of the last step that is added to the next."""
    nesterov: bool = False
    """Nesterov's momentum (Sutskever et al. 2013)."""
    weight_decay: NonNegativeFloat = 0.0
    """L2 penalty of the weights."""

    def check_fields(self) -> list[FieldError]:
        """The error of Nesterov's momentum without momentum."""
        return [FieldError("nesterov", "needs `momentum` above 0")] if self.nesterov and not self.momentum else []

    def build(self, parameters: ParamsT) -> optim.Optimizer:
        """The optimizer of `parameters`, or of groups of them."""
        return optim.SGD(parameters, **self.model_dump(exclude={"kind"}), fused=True)


class AdadeltaConfig(Config):
    """Adadelta (Zeiler 2012), the optimizer of Bahdanau et al. 2015."""

    kind: Literal["adadelta"] = "adadelta"
    lr: LearningRate = 1.0
    rho: UnitInterval = 0.95
    """Decay of the running averages."""
    eps: PositiveFloat = 1e-6
    """Added to the denominator."""
    weight_decay: NonNegativeFloat = 0.0
    """L2 penalty of the weights."""

    def build(self, parameters: ParamsT) -> optim.Optimizer:
        """The optimizer of `parameters`, or of groups of them."""
        return optim.Adadelta(parameters, **self.model_dump(exclude={"kind"}))


OptimizerConfig = Annotated[AdamConfig | SGDConfig | AdadeltaConfig, Field(discriminator="kind")]


def parameter_groups(model: nn.Module, lr_scales: Mapping[str, float]) -> list[dict[str, Any]]:
    """Parameter groups of an optimizer: one for each `lr_scale`, a scale of 1 first; frozen parameters are in none.

    `lr_scales`: of parts, of which the longest name counts. Raises FieldError for a name that no part has.
    """
    scales = {parameter: 1.0 for parameter in model.parameters() if parameter.requires_grad}
    for part in sorted(lr_scales, key=len):
        selected = select_parameters(model, [part], "training.lr_scales").values()
        scales |= {parameter: lr_scales[part] for parameter in selected if parameter in scales}
    return [
        {"params": [parameter for parameter, lr_scale in scales.items() if lr_scale == scale], "lr_scale": scale}
        for scale in sorted({*scales.values()}, key=lambda scale: (scale != 1.0, scale))
    ]
