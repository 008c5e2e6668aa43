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
from seq2attn.nn.initialization import each_gate, initialise, remember
from seq2attn.nn.linear import Linear, is_recording
from seq2attn.nn.rnn import LATE, CellKind, Cells, gru_step, lstm_step, run_rnn


class RecurrentConfig(Config):
    """What the recurrent decoders have in common."""

    cell: CellKind = "gru"
    dim: PositiveInt = 512
    """Width of the cells and of what words are guessed from."""
    layers: PositiveInt = 1
    dropout: float = Field(0.0, ge=0, lt=1)
    """Between layers and on what words are guessed from."""


class Bridge(nn.Module):
    """The decoder's first state from the encoder's last: s_0 = tanh(W h), Bahdanau et al. 2015, section A.2.2."""

    def __init__(self, cell: CellKind, final_dim: int, dim: int, layers: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList(
            nn.Linear(final_dim, layers * dim) for _ in range(1 if cell == "gru" else 2)
        )
        self.layers = layers

    def forward(self, final: tuple[Tensor, ...]) -> Cells:
        """Each [B, encoder layers, F], of which the top layer counts -> each [B, L, D]"""
        tops = [final[min(i, len(final) - 1)][:, -1] for i in range(len(self.parts))]
        return tuple(
            torch.tanh(part(top)).unflatten(-1, (self.layers, -1))
            for part, top in zip(self.parts, tops, strict=True)
        )


class WholeCells(nn.Module):
    """PyTorch's own GRU or LSTM: for decoders in which nothing that was given is taken back."""

    def __init__(self, cell: CellKind, input_dim: int, dim: int, layers: int, dropout: float) -> None:
        super().__init__()
        kind = nn.GRU if cell == "gru" else nn.LSTM
        between = dropout if layers > 1 else 0.0
        self.rnn = kind(input_dim, dim, layers, batch_first=True, dropout=between)

    def forward(self, words: Tensor, cells: Cells) -> tuple[Tensor, Cells]:
        """words [N, T, E] -> the top layer's h [N, T, D], and the cells after the last word"""
        first = tuple(part.transpose(0, 1).contiguous() for part in cells)
        outputs, last = run_rnn(self.rnn, words, first)
        return outputs, tuple(part.transpose(0, 1) for part in last)


class FedCells(nn.Module):
    """Cells whose input is a word and a vector fed at that step; the words' share is computed for all steps at once."""

    def __init__(
        self, cell: CellKind, input_dim: int, feed_dim: int, dim: int, layers: int, dropout: float
    ) -> None:
        super().__init__()
        self.kind: CellKind = cell
        self.gates = 3 if cell == "gru" else 4
        self.step = gru_step if cell == "gru" else lstm_step
        self.words = Linear(input_dim, self.gates * dim)
        self.feed = nn.Linear(feed_dim, self.gates * dim, bias=False)
        upper = [nn.Linear(dim, self.gates * dim) for _ in range(layers - 1)]
        hidden = [nn.Linear(dim, self.gates * dim) for _ in range(layers)]
        self.upper, self.hidden = nn.ModuleList(upper), nn.ModuleList(hidden)
        self.dropout = Dropout(dropout)
        self._initialise(upper, hidden)

    def _initialise(self, upper: list[nn.Linear], hidden: list[nn.Linear]) -> None:
        """First weights gate by gate, and biases, as `seq2attn.nn.initialization` states them."""
        initialise(self)
        for layer in (self.words, self.feed, *upper):
            each_gate(layer.weight, self.gates, nn.init.xavier_uniform_)
        for layer in hidden:
            each_gate(layer.weight, self.gates, nn.init.orthogonal_)
        if self.gates == 4:
            for layer in (self.words, *upper):
                remember(layer.bias)

    def steps(self, words: Tensor) -> Steps:
        """[N, T, E] -> T cells, each to be called with what is fed [N, F] and the cells so far, in turn."""
        return LateSteps(self, words) if is_recording() else PlainSteps(self, words)


class PlainSteps:
    """The formula."""

    def __init__(self, cells: FedCells, words: Tensor) -> None:
        self._cells, self._words = cells, cells.words(words).unbind(1)

    def __call__(self, t: int, feed: Tensor, cells: list[Cells]) -> tuple[Tensor, list[Cells]]:
        """Step t: feed [N, F], a layer's cells each [N, D] -> the top h [N, D], cells"""
        own, after = self._cells, list[Cells]()
        gates = self._words[t] + own.feed(feed)
        for layer, before in enumerate(cells):
            if layer:
                gates = own.upper[layer - 1](own.dropout(after[-1][0]))
            after.append(own.step(gates, own.hidden[layer](before[0]), before))
        return after[-1][0], after


class LateSteps:
    """The same for training: fused steps, and one product of all steps for each weight's gradient."""

    def __init__(self, cells: FedCells, words: Tensor) -> None:
        rows = [words.size(0)] * words.size(1)
        gates = cells.words(words.transpose(0, 1)).flatten(0, 1)
        given = [(gates, cells.feed.weight)]
        for layer in cast("Iterable[nn.Linear]", cells.upper):
            given.append((layer.bias.to(gates.dtype).expand_as(gates), layer.weight))
        hidden = cast("Iterable[nn.Linear]", cells.hidden)
        self._dropout = cells.dropout
        self._layers = [
            LATE[cells.kind](base, weight, layer.weight, layer.bias, rows)
            for (base, weight), layer in zip(given, hidden, strict=True)
        ]

    def __call__(self, t: int, feed: Tensor, cells: list[Cells]) -> tuple[Tensor, list[Cells]]:
        """As of `PlainSteps`."""
        given, after = feed, list[Cells]()
        for layer, (step, before) in enumerate(zip(self._layers, cells, strict=True)):
            after.append(step(t, self._dropout(given) if layer else given, before))
            given = after[-1][0]
        return given, after


Steps = PlainSteps | LateSteps


def by_layer(cells: Cells) -> list[Cells]:
    """Each [N, L, D] -> for each layer its cells, each [N, D]"""
    return list(zip(*(part.unbind(1) for part in cells), strict=True))


def together(cells: list[Cells]) -> Cells:
    """For each layer its cells, each [N, D] -> each [N, L, D]"""
    return tuple(torch.stack(part, 1) for part in zip(*cells, strict=True))
