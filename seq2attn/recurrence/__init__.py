"""Recurrences that are trained fast: fused steps, and weights whose gradient is made once for all of them."""

from seq2attn.recurrence.cells import LATE, CellKind, Cells
from seq2attn.recurrence.late import Late
from seq2attn.recurrence.packed import read_packed

__all__ = ["LATE", "CellKind", "Cells", "Late", "read_packed"]
