"""First weights, stated per kind of layer.

| layer | first weights |
|---|---|
| linear (attention, feed-forward, mixtures, bridges, output) | uniform, Glorot and Bengio 2010, eq. 16; bias 0 |
| cells, from the input or what is fed | the same, each gate by itself |
| cells, from the last state | orthogonal, each gate by itself (Saxe et al. 2014) |
| cells, bias | 0; the LSTM's forget gate 1 (Jozefowicz et al. 2015) |
| embeddings (also as the output's weights), positions, distances | normal with a standard deviation of dim ** -0.5 |
| convolutions, gated | normal with a standard deviation of sqrt(4 / (kernel_size * inputs)); Gehring et al. 2017, 3.5 |
| v of additive scores | uniform between -0.1 and 0.1 |
| layer norm, RMSNorm | weight 1; bias 0, if it has one |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


def initialize_parameters(module: nn.Module) -> None:
    """Give every linear, embedding and PyTorch-recurrent layer inside `module` its first weights."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, nn.Conv1d):
            nn.init.normal_(part.weight, std=(4 / part.weight[0].numel()) ** 0.5)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=part.embedding_dim**-0.5)
        elif isinstance(part, nn.GRU | nn.LSTM):
            _initialise_rnn(part)


def _initialise_rnn(rnn: nn.GRU | nn.LSTM) -> None:
    gates = 3 if isinstance(rnn, nn.GRU) else 4
    for name, parameter in rnn.named_parameters():
        if name.startswith("weight_hh"):
            init_gates(parameter, gates, nn.init.orthogonal_)
        elif name.startswith("weight_ih"):
            init_gates(parameter, gates, nn.init.xavier_uniform_)
        else:
            nn.init.zeros_(parameter)
            if gates == 4 and name.startswith("bias_ih"):
                open_forget_gate(parameter)


def init_gates(weight: Tensor, gates: int, initial: Callable[[Tensor], Tensor]) -> None:
    """Apply `initial` to each of the `gates` blocks [D, I] of `weight` [gates * D, I], if it has memory."""
    if weight.is_meta:
        return
    with torch.no_grad():
        for block in weight.chunk(gates):
            initial(block)


def open_forget_gate(bias: Tensor) -> None:
    """Open the forget gate of an LSTM's bias [4 * D] (order: input, forget, new, output)."""
    with torch.no_grad():
        bias.chunk(4)[1].fill_(1.0)


class SkipInit(TorchFunctionMode):
    """Within it, first weights are not drawn, for models that have no memory for them.

    PyTorch would import its compiler to draw numbers that are not there, which takes two seconds.
    """

    RANDOM_INIT_FUNCTIONS = (
        Tensor.normal_,
        Tensor.uniform_,
        nn.init.normal_,
        nn.init.uniform_,
        nn.init.kaiming_uniform_,
    )

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """What a function of PyTorch gives: what is drawn stays as it is."""
        if func in self.RANDOM_INIT_FUNCTIONS:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))
