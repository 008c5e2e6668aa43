"""Stacks of recurrent cells: one reads all words in a call, the other takes back what it gave at each step.

Shapes: N rows, T words, L layers, D width. Cells are (h,) of a GRU or (h, c) of an LSTM, each [N, L, D].
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from seq2attn.config.base import Config
from seq2attn.nn.dropout import Dropout
from seq2attn.nn.initialization import init_gates, initialize_parameters, open_forget_gate
from seq2attn.nn.linear import Linear, is_grad_recording
from seq2attn.nn.rnn import FUSED_CELLS, CellType, RNNState, gru_cell, lstm_cell, run_rnn


class RecurrentDecoderBaseConfig(Config):
    """What the recurrent decoders have in common."""

    cell: CellType = "gru"
    """Type of the RNN cells."""
    dim: PositiveInt = 512
    """Width of the cells and of what words are guessed from."""
    layers: PositiveInt = 1
    """Number of layers."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Between layers and on what words are guessed from."""


class Bridge(nn.Module):
    """The decoder's first state from the encoder's last: s_0 = tanh(W h), Bahdanau et al. 2015, section A.2.2."""

    def __init__(self, cell: CellType, final_dim: int, dim: int, layers: int) -> None:
        super().__init__()
        self.projections = nn.ModuleList(nn.Linear(final_dim, layers * dim) for _ in range(1 if cell == "gru" else 2))
        self.layers = layers

    def forward(self, final: tuple[Tensor, ...]) -> RNNState:
        """Each [B, encoder layers, F], of which the top layer counts -> each [B, L, D]"""
        tops = [final[min(i, len(final) - 1)][:, -1] for i in range(len(self.projections))]
        return tuple(
            torch.tanh(part(top)).unflatten(-1, (self.layers, -1))
            for part, top in zip(self.projections, tops, strict=True)
        )


class TorchRNN(nn.Module):
    """PyTorch's own GRU or LSTM: for decoders in which nothing that was given is taken back."""

    def __init__(self, cell: CellType, input_dim: int, dim: int, layers: int, dropout: float) -> None:
        super().__init__()
        kind = nn.GRU if cell == "gru" else nn.LSTM
        between = dropout if layers > 1 else 0.0
        self.rnn = kind(input_dim, dim, layers, batch_first=True, dropout=between)

    def forward(self, words: Tensor, cells: RNNState) -> tuple[Tensor, RNNState]:
        """words [N, T, E] -> the top layer's h [N, T, D], and the cells after the last word"""
        first = tuple(part.transpose(0, 1).contiguous() for part in cells)
        outputs, last = run_rnn(self.rnn, words, first)
        return outputs, tuple(part.transpose(0, 1) for part in last)


class InputFedRNN(nn.Module):
    """Cells whose input is a word and a vector fed at that step; the words' share is computed for all steps at once."""

    def __init__(self, cell: CellType, input_dim: int, feed_dim: int, dim: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.cell_type: CellType = cell
        self.num_gates = 3 if cell == "gru" else 4
        self.step = gru_cell if cell == "gru" else lstm_cell
        self.input_proj = Linear(input_dim, self.num_gates * dim)
        self.feed_proj = nn.Linear(feed_dim, self.num_gates * dim, bias=False)
        upper = [nn.Linear(dim, self.num_gates * dim) for _ in range(layers - 1)]
        hidden = [nn.Linear(dim, self.num_gates * dim) for _ in range(layers)]
        self.upper_input_proj, self.hidden_proj = nn.ModuleList(upper), nn.ModuleList(hidden)
        self.dropout = Dropout(dropout)
        self._initialise(upper, hidden)

    def _initialise(self, upper: list[nn.Linear], hidden: list[nn.Linear]) -> None:
        """First weights gate by gate, and biases, as `seq2attn.nn.initialization` states them."""
        initialize_parameters(self)
        for layer in (self.input_proj, self.feed_proj, *upper):
            init_gates(layer.weight, self.num_gates, nn.init.xavier_uniform_)
        for layer in hidden:
            init_gates(layer.weight, self.num_gates, nn.init.orthogonal_)
        if self.num_gates == 4:
            for layer in (self.input_proj, *upper):
                open_forget_gate(layer.bias)

    def steps(self, words: Tensor) -> RNNSteps:
        """[N, T, E] -> T cells, each to be called with what is fed [N, F] and the cells so far, in turn."""
        return FusedSteps(self, words) if is_grad_recording() else ReferenceSteps(self, words)


class ReferenceSteps:
    """The formula."""

    def __init__(self, cells: InputFedRNN, words: Tensor) -> None:
        self._cells, self._words = cells, cells.input_proj(words).unbind(1)

    def __call__(self, t: int, feed: Tensor, cells: list[RNNState]) -> tuple[Tensor, list[RNNState]]:
        """Step t: feed [N, F], a layer's cells each [N, D] -> the top h [N, D], cells"""
        own, after = self._cells, list[RNNState]()
        gates = self._words[t] + own.feed_proj(feed)
        for layer, before in enumerate(cells):
            if layer:
                gates = own.upper_input_proj[layer - 1](own.dropout(after[-1][0]))
            after.append(own.step(gates, own.hidden_proj[layer](before[0]), before))
        return after[-1][0], after


class FusedSteps:
    """The same for training: fused steps, and one product of all steps for each weight's gradient."""

    def __init__(self, cells: InputFedRNN, words: Tensor) -> None:
        rows = [words.size(0)] * words.size(1)
        gates = cells.input_proj(words.transpose(0, 1)).flatten(0, 1)
        given = [(gates, cells.feed_proj.weight)]
        for layer in cast("Iterable[nn.Linear]", cells.upper_input_proj):
            given.append((layer.bias.to(gates.dtype).expand_as(gates), layer.weight))
        hidden = cast("Iterable[nn.Linear]", cells.hidden_proj)
        self._dropout = cells.dropout
        self._layers = [
            FUSED_CELLS[cells.cell_type](base, weight, layer.weight, layer.bias, rows)
            for (base, weight), layer in zip(given, hidden, strict=True)
        ]

    def __call__(self, t: int, feed: Tensor, cells: list[RNNState]) -> tuple[Tensor, list[RNNState]]:
        """As of `ReferenceSteps`."""
        given, after = feed, list[RNNState]()
        for layer, (step, before) in enumerate(zip(self._layers, cells, strict=True)):
            after.append(step(t, self._dropout(given) if layer else given, before))
            given = after[-1][0]
        return given, after


RNNSteps = ReferenceSteps | FusedSteps


def unstack_layer_states(cells: RNNState) -> list[RNNState]:
    """Each [N, L, D] -> for each layer its cells, each [N, D]"""
    return list(zip(*(part.unbind(1) for part in cells), strict=True))


def stack_layer_states(cells: list[RNNState]) -> RNNState:
    """For each layer its cells, each [N, D] -> each [N, L, D]"""
    return tuple(torch.stack(part, 1) for part in zip(*cells, strict=True))
