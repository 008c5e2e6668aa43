"""Recurrences that are trained fast: fused steps, and weights whose gradient is made once for all of them."""

from seq2attn.nn.rnn.deferred_linear import Late
from seq2attn.nn.rnn.fused_cells import LATE, CellKind
from seq2attn.nn.rnn.packed import read_packed, run_rnn
from seq2attn.nn.rnn.reference_cells import Cells, gru_step, lstm_step

__all__ = ["LATE", "CellKind", "Cells", "Late", "gru_step", "lstm_step", "read_packed", "run_rnn"]
