"""RNNs that train fast on a CPU: fused steps, and one gradient of each weight for all steps."""

from seq2attn.nn.rnn.cells import RNNState, gru_cell, lstm_cell
from seq2attn.nn.rnn.deferred_linear import DeferredLinear
from seq2attn.nn.rnn.fused_cells import FUSED_CELLS, CellType
from seq2attn.nn.rnn.packed import run_packed, run_rnn

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
