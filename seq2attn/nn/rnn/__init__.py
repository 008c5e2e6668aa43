"""Recurrences that are trained fast: fused steps, and weights whose gradient is made once for all of them."""

from seq2attn.nn.rnn.deferred_linear import DeferredLinear
from seq2attn.nn.rnn.fused_cells import FUSED_CELLS, CellType
from seq2attn.nn.rnn.packed import run_packed, run_rnn
from seq2attn.nn.rnn.reference_cells import RNNState, gru_cell, lstm_cell

__all__ = [
    "FUSED_CELLS",
    "CellType",
    "DeferredLinear",
    "RNNState",
    "gru_cell",
    "lstm_cell",
    "run_packed",
    "run_rnn",
]
