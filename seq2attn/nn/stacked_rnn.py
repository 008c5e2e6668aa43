"""Stacks of recurrent cells for decoders, with and without an input that depends on the previous step.

Shapes: N rows, T tokens, L layers, D width. An RNN state is (h,) of a GRU or (h, c) of an LSTM, each [N, L, D].
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from seq2attn.nn.initialization import init_gates, initialize_parameters, open_forget_gate
from seq2attn.nn.kernels.linear import Linear
from seq2attn.nn.kernels.rnn_cells import FUSED_CELLS, CellType, RNNState, gru_cell, lstm_cell
from seq2attn.nn.layers import Dropout
from seq2attn.nn.packed_rnn import run_rnn
from seq2attn.nn.precision import is_grad_recording


class TorchRNN(nn.Module):
    """PyTorch's GRU or LSTM, for decoders whose RNN inputs are known in advance."""

    def __init__(self, cell: CellType, input_dim: int, dim: int, layers: int, dropout: float) -> None:
        super().__init__()
        rnn_type = nn.GRU if cell == "gru" else nn.LSTM
        self.rnn = rnn_type(input_dim, dim, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)

    def forward(self, x: Tensor, state: RNNState) -> tuple[Tensor, RNNState]:
        """[N, T, E] -> h of the top layer [N, T, D], and the state after the last token"""
        outputs, final = run_rnn(self.rnn, x, tuple(part.transpose(0, 1).contiguous() for part in state))
        return outputs, tuple(part.transpose(0, 1) for part in final)


class InputFedRNN(nn.Module):
    """RNN with two inputs: a token, whose projection is computed for all steps at once, and a vector fed each step."""

    def __init__(self, cell: CellType, input_dim: int, feed_dim: int, dim: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.cell_type: CellType = cell
        self.num_gates = 3 if cell == "gru" else 4
        self.cell = gru_cell if cell == "gru" else lstm_cell
        self.input_proj = Linear(input_dim, self.num_gates * dim)
        self.feed_proj = nn.Linear(feed_dim, self.num_gates * dim, bias=False)
        upper = [nn.Linear(dim, self.num_gates * dim) for _ in range(layers - 1)]
        hidden = [nn.Linear(dim, self.num_gates * dim) for _ in range(layers)]
        self.upper_input_proj, self.hidden_proj = nn.ModuleList(upper), nn.ModuleList(hidden)
        self.dropout = Dropout(dropout)
        initialize_parameters(self)
        for layer in (self.input_proj, self.feed_proj, *upper):
            init_gates(layer.weight, self.num_gates, nn.init.xavier_uniform_)
        for layer in hidden:
            init_gates(layer.weight, self.num_gates, nn.init.orthogonal_)
        if cell == "lstm":
            for layer in (self.input_proj, *upper):
                open_forget_gate(layer.bias)

    def steps(self, embedded: Tensor) -> ReferenceSteps | FusedSteps:
        """The steps for tokens [N, T, E], to be called in turn."""
        return FusedSteps(self, embedded) if is_grad_recording() else ReferenceSteps(self, embedded)


class ReferenceSteps:
    """Steps of an `InputFedRNN` by the formula."""

    def __init__(self, rnn: InputFedRNN, embedded: Tensor) -> None:
        self._rnn, self._inputs = rnn, rnn.input_proj(embedded).unbind(1)

    def __call__(self, t: int, feed: Tensor, states: list[RNNState]) -> tuple[Tensor, list[RNNState]]:
        """Step t: feed [N, F], state of each layer, each [N, D] -> h of the top layer [N, D], states"""
        rnn, new_states = self._rnn, list[RNNState]()
        gates = self._inputs[t] + rnn.feed_proj(feed)
        dtype = torch.promote_types(gates.dtype, torch.float32)  # products may be in bfloat16, states are not
        for layer, state in enumerate(states):
            if layer:
                gates = rnn.upper_input_proj[layer - 1](rnn.dropout(new_states[-1][0]))
            parts = (gates, rnn.hidden_proj[layer](state[0]), *state)
            gates, hidden, *state_parts = (part.to(dtype) for part in parts)
            new_states.append(rnn.cell(gates, hidden, tuple(state_parts)))
        return new_states[-1][0], new_states


class FusedSteps:
    """Steps of an `InputFedRNN` for training: fused, and one product over all steps for each weight gradient."""

    def __init__(self, rnn: InputFedRNN, embedded: Tensor) -> None:
        rows = [embedded.size(0)] * embedded.size(1)
        gates = rnn.input_proj(embedded.transpose(0, 1)).flatten(0, 1)
        inputs = [(gates, rnn.feed_proj.weight)]
        for upper in cast("Iterable[nn.Linear]", rnn.upper_input_proj):
            inputs.append((upper.bias.to(gates.dtype).expand_as(gates), upper.weight))
        self._dropout = rnn.dropout
        self._cells = [
            FUSED_CELLS[rnn.cell_type](base, weight, hidden.weight, hidden.bias, rows)
            for (base, weight), hidden in zip(inputs, cast("Iterable[nn.Linear]", rnn.hidden_proj), strict=True)
        ]

    def __call__(self, t: int, feed: Tensor, states: list[RNNState]) -> tuple[Tensor, list[RNNState]]:
        """Step t: feed [N, F], state of each layer, each [N, D] -> h of the top layer [N, D], states"""
        x, new_states = feed, list[RNNState]()
        for layer, (cell, state) in enumerate(zip(self._cells, states, strict=True)):
            new_states.append(cell(t, self._dropout(x) if layer else x, state))
            x = new_states[-1][0]
        return x, new_states


def unstack_layer_states(state: RNNState) -> list[RNNState]:
    """Each [N, L, D] -> for each layer its state, each [N, D]"""
    return list(zip(*(part.unbind(1) for part in state), strict=True))


def stack_layer_states(states: list[RNNState]) -> RNNState:
    """For each layer its state, each [N, D] -> each [N, L, D]"""
    return tuple(torch.stack(part, 1) for part in zip(*states, strict=True))
