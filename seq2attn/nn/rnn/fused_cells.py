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

from seq2attn.nn.rnn.deferred_linear import Late
from seq2attn.nn.rnn.fused_ops import fused_gru, fused_lstm
from seq2attn.nn.rnn.reference_cells import Cells


class LateGru:
    """A GRU whose reset gate stands after the product, so that input and state have a product each."""

    def __init__(
        self, gates: Tensor, weight: Tensor | None, hidden: Tensor, bias: Tensor, rows: Sequence[int]
    ) -> None:
        """Gates made beforehand [R, G]; weight [G, I] of what steps are given; hidden [G, D], bias [G] of the state."""
        self._carried = torch.promote_types(gates.dtype, torch.float32)
        self._inputs = gates.split(list(rows)) if weight is None else Late(gates, weight, rows)
        self._hidden = Late(bias.to(gates.dtype).expand_as(gates), hidden, rows)

    def __call__(self, step: int, given: Tensor | None, cells: Cells) -> Cells:
        """[n, I], (h,) -> (h,)"""
        if isinstance(self._inputs, Late):
            assert given is not None, "a cell with a weight for it is given something at each step"
            inputs = self._inputs(step, given)
        else:
            inputs = self._inputs[step]
        (h,) = cells
        hidden = self._hidden(step, h)
        return (fused_gru(inputs, hidden, h.to(self._carried)),)


class LateLstm:
    """An LSTM: one product of what is given and the state side by side."""

    def __init__(
        self, gates: Tensor, weight: Tensor | None, hidden: Tensor, bias: Tensor, rows: Sequence[int]
    ) -> None:
        """As `LateGru`."""
        self._carried = torch.promote_types(gates.dtype, torch.float32)
        weight = hidden if weight is None else torch.cat([weight, hidden], 1)
        self._gates = Late(gates + bias.to(gates.dtype), weight, rows)

    def __call__(self, step: int, given: Tensor | None, cells: Cells) -> Cells:
        """[n, I], (h, c) -> (h, c)"""
        h, c = cells
        gates = self._gates(step, h if given is None else torch.cat([given, h], 1))
        return fused_lstm(gates, c.to(self._carried))


CellKind = Literal["gru", "lstm"]
LATE: dict[CellKind, type[LateGru | LateLstm]] = {"gru": LateGru, "lstm": LateLstm}
