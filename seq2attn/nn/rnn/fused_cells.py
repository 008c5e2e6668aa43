"""Cells within one recurrence: what is made for all steps beforehand, and what from step to step.

Products may be in bfloat16; h of a GRU and c of an LSTM are carried from step to step in float32 at least, or what is
less than a 256th of them would be lost at each step.

A cell is called with the number of the step, what it is given there beside the gates made beforehand ([n, I], or
nothing), and the cells before it; it gives the cells after it.

Shapes: R rows of all steps together, n rows of one step, D width, G gates (3D of a GRU, 4D of an LSTM).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from seq2attn.nn.rnn.deferred_linear import DeferredLinear
from seq2attn.nn.rnn.fused_ops import fused_gru_cell, fused_lstm_cell
from seq2attn.nn.rnn.reference_cells import RNNState


class FusedGRUCell:
    """A GRU whose reset gate stands after the product, so that input and state have a product each."""

    def __init__(self, gates: Tensor, weight: Tensor | None, hidden: Tensor, bias: Tensor, rows: Sequence[int]) -> None:
        """Gates made beforehand [R, G]; weight [G, I] of what steps are given; hidden [G, D], bias [G] of the state."""
        self._carried = torch.promote_types(gates.dtype, torch.float32)
        self._inputs = gates.split(list(rows)) if weight is None else DeferredLinear(gates, weight, rows)
        self._hidden = DeferredLinear(bias.to(gates.dtype).expand_as(gates), hidden, rows)

    def __call__(self, step: int, given: Tensor | None, cells: RNNState) -> RNNState:
        """[n, I], (h,) -> (h,)"""
        if isinstance(self._inputs, DeferredLinear):
            assert given is not None, "a cell with a weight for it is given something at each step"
            inputs = self._inputs(step, given)
        else:
            inputs = self._inputs[step]
        (h,) = cells
        hidden = self._hidden(step, h)
        return (fused_gru_cell(inputs, hidden, h.to(self._carried)),)


class FusedLSTMCell:
    """An LSTM: one product of what is given and the state side by side."""

    def __init__(self, gates: Tensor, weight: Tensor | None, hidden: Tensor, bias: Tensor, rows: Sequence[int]) -> None:
        """As `FusedGRUCell`."""
        self._carried = torch.promote_types(gates.dtype, torch.float32)
        weight = hidden if weight is None else torch.cat([weight, hidden], 1)
        self._gates = DeferredLinear(gates + bias.to(gates.dtype), weight, rows)

    def __call__(self, step: int, given: Tensor | None, cells: RNNState) -> RNNState:
        """[n, I], (h, c) -> (h, c)"""
        h, c = cells
        gates = self._gates(step, h if given is None else torch.cat([given, h], 1))
        return fused_lstm_cell(gates, c.to(self._carried))


CellType = Literal["gru", "lstm"]
FUSED_CELLS: dict[CellType, type[FusedGRUCell | FusedLSTMCell]] = {"gru": FusedGRUCell, "lstm": FusedLSTMCell}
