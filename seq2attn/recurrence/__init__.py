"""Recurrences that are trained fast: fused steps, and weights whose gradient is made once for all of them."""

from seq2attn.recurrence.cells import LATE, CellKind
from seq2attn.recurrence.late import Late
from seq2attn.recurrence.packed import read_packed, run_rnn
from seq2attn.recurrence.steps import Cells, gru_step, lstm_step

__all__ = ["LATE", "CellKind", "Cells", "Late", "gru_step", "lstm_step", "read_packed", "run_rnn"]
