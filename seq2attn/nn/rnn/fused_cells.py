"""Cells of one recurrence, with what is computed for all steps at once and what step by step.

A cell is called with the index of the step, its input beside the precomputed gates ([n, I], or None) and the state
before it; it returns the state after it. Products may be in bfloat16, but h of a GRU and c of an LSTM are carried in
float32 at least: bfloat16 would lose changes of less than 1/256 at each step.

Shapes: R rows of all steps together, n rows of one step, D width, G gates (3D of a GRU, 4D of an LSTM).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from seq2attn.nn.rnn.cells import RNNState, fused_gru_cell, fused_lstm_cell
from seq2attn.nn.rnn.deferred_linear import DeferredLinear


class FusedGRUCell:
    """A GRU with its reset gate after the product, so that input and state have a product each."""

    def __init__(self, gates: Tensor, weight: Tensor | None, hidden: Tensor, bias: Tensor, rows: Sequence[int]) -> None:
        """Precomputed gates [R, G]; weight [G, I] of the step inputs, None without any; hidden [G, D], bias [G]."""
        self._dtype = torch.promote_types(gates.dtype, torch.float32)
        self._inputs = gates.split(list(rows)) if weight is None else DeferredLinear(gates, weight, rows)
        self._hidden = DeferredLinear(bias.to(gates.dtype).expand_as(gates), hidden, rows)

    def __call__(self, step: int, x: Tensor | None, state: RNNState) -> RNNState:
        """[n, I], (h,) -> (h,)"""
        if isinstance(self._inputs, DeferredLinear):
            assert x is not None, "a cell with a weight for step inputs needs one at each step"
            inputs = self._inputs(step, x)
        else:
            inputs = self._inputs[step]
        (h,) = state
        return (fused_gru_cell(inputs, self._hidden(step, h), h.to(self._dtype)),)


class FusedLSTMCell:
    """An LSTM: one product of step input and state, concatenated. Arguments are those of `FusedGRUCell`."""

    def __init__(self, gates: Tensor, weight: Tensor | None, hidden: Tensor, bias: Tensor, rows: Sequence[int]) -> None:
        self._dtype = torch.promote_types(gates.dtype, torch.float32)
        weight = hidden if weight is None else torch.cat([weight, hidden], 1)
        self._gates = DeferredLinear(gates + bias.to(gates.dtype), weight, rows)

    def __call__(self, step: int, x: Tensor | None, state: RNNState) -> RNNState:
        """[n, I], (h, c) -> (h, c)"""
        h, c = state
        gates = self._gates(step, h if x is None else torch.cat([x, h], 1))
        return fused_lstm_cell(gates, c.to(self._dtype))


CellType = Literal["gru", "lstm"]
FUSED_CELLS: dict[CellType, type[FusedGRUCell | FusedLSTMCell]] = {"gru": FusedGRUCell, "lstm": FusedLSTMCell}
