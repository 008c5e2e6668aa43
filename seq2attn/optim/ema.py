"""Exponential moving average of the weights (Polyak and Juditsky 1992; Junczys-Dowmunt et al. 2018).

The averages are in the state of the optimizer, with which checkpoints save them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.optim import Optimizer

AVERAGE = "average"
"""Key of the average in the optimizer's state of a parameter."""


class WeightAverage:
    """Moving average of all trained weights, which replaces them for validation and in checkpoints."""

    def __init__(self, optimizer: Optimizer, decay: float) -> None:
        self.optimizer = optimizer
        self.decay = decay

    @torch.no_grad()
    def update(self, update: int, skipped: Tensor) -> None:
        """Add the weights after a step of the optimizer, unless `skipped` [] is 1; `update` counts from 1.

        The flag is not read by the host, which would wait for the device. The first updates decay faster, by
        (1 + update) / (10 + update), so that the initial weights are forgotten.
        """
        decay = min(self.decay, (1 + update) / (10 + update))
        state = self.optimizer.state  # which the optimizer begins with the first gradient of a parameter
        parameters = [p for p in self._parameters() if p.grad is not None or AVERAGE in state[p]]
        for parameter in parameters:
            if AVERAGE not in state[parameter]:
                state[parameter][AVERAGE] = parameter.detach().clone()
        averages = [state[parameter][AVERAGE] for parameter in parameters]
        changes = torch._foreach_sub(parameters, averages)
        torch._foreach_mul_(changes, (1 - decay) * (1 - skipped))
        torch._foreach_add_(averages, changes)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The averages as weights of the model, and the weights in the optimizer's state."""
        self.swap()
        try:
            yield
        finally:
            self.swap()

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange weights and averages; before the first update there is nothing to exchange."""
        for parameter in self._parameters():
            if (average := self.optimizer.state.get(parameter, {}).get(AVERAGE)) is not None:
                weights = parameter.clone()
                parameter.copy_(average)
                average.copy_(weights)

    def _parameters(self) -> list[Tensor]:
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
