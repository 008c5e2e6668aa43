"""Initial weights, by type of layer.

| layer | initial weights |
|---|---|
| linear (attention, feed-forward, bridges, output) | uniform, Glorot and Bengio 2010, eq. 16; bias 0 |
| RNN, from inputs | the same, for each gate |
| RNN, from the last state | orthogonal, for each gate (Saxe et al. 2014) |
| RNN, bias | 0; the LSTM's forget gate 1 (Jozefowicz et al. 2015) |
| embeddings (also as the output's weights), positions, distances | normal with a standard deviation of dim ** -0.5 |
| convolutions, gated | normal with a standard deviation of sqrt(4 / (kernel_size * inputs)); Gehring et al. 2017, 3.5 |
| v of additive scores | uniform between -0.1 and 0.1 |
| layer norm, RMSNorm | weight 1; bias 0, if it has one |
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


def initialize_parameters(module: nn.Module) -> None:
    """Initialize all linear, convolutional, embedding and PyTorch RNN layers in `module`, but not in plug-ins."""
    for layer in _without_plugins(module):
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
        elif isinstance(layer, nn.Conv1d):
            nn.init.normal_(layer.weight, std=(4 / layer.weight[0].numel()) ** 0.5)
        elif isinstance(layer, nn.Embedding):
            nn.init.normal_(layer.weight, std=layer.embedding_dim**-0.5)
        elif isinstance(layer, nn.GRU | nn.LSTM):
            _init_rnn(layer)
        if isinstance(layer, nn.Linear | nn.Conv1d) and layer.bias is not None:
            nn.init.zeros_(layer.bias)


def _without_plugins(module: nn.Module) -> Iterator[nn.Module]:
    """A module and those inside it; a plug-in, such as the score of a decoder, has initialized its own."""
    yield module
    for child in module.children():
        if type(child).__module__.partition(".")[0] in ("seq2attn", "torch"):
            yield from _without_plugins(child)


def _init_rnn(rnn: nn.GRU | nn.LSTM) -> None:
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


def init_gates(weight: Tensor, gates: int, init: Callable[[Tensor], Tensor]) -> None:
    """Apply `init` to each of the `gates` blocks [D, I] of `weight` [gates * D, I], unless it is on the meta device."""
    if weight.is_meta:
        return
    with torch.no_grad():
        for block in weight.chunk(gates):
            init(block)


def open_forget_gate(bias: Tensor) -> None:
    """Set the bias of an LSTM's forget gate to 1; bias [4 * D] (order: input, forget, new, output)."""
    with torch.no_grad():
        bias.chunk(4)[1].fill_(1.0)


class SkipInit(TorchFunctionMode):
    """Context manager that skips random initialization, for models on the meta device.

    There PyTorch would import its compiler for random functions, which takes two seconds.
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
        """Result of `func`; a random initialization returns its tensor unchanged."""
        if func in self.RANDOM_INIT_FUNCTIONS:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))
