"""One step of a GRU or an LSTM, by its formula.

Shapes: N rows, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor

RNNState = tuple[Tensor, ...]
"""(h,) of a GRU or (h, c) of an LSTM, each [N, D]"""


def gru_cell(inputs: Tensor, hidden: Tensor, cells: RNNState) -> RNNState:
    """Cho et al. 2014, eq. 5-8, with the reset gate after the product, as cuDNN has it. Gates [N, 3D], h [N, D]."""
    (h,) = cells
    reset_update_in, new_in = inputs.split([2 * h.size(-1), h.size(-1)], -1)
    reset_update_hidden, new_hidden = hidden.split([2 * h.size(-1), h.size(-1)], -1)
    reset, update = torch.sigmoid(reset_update_in + reset_update_hidden).chunk(2, -1)
    new = torch.tanh(torch.addcmul(new_in, reset, new_hidden))
    return (torch.lerp(new, h, update),)


def lstm_cell(inputs: Tensor, hidden: Tensor, cells: RNNState) -> RNNState:
    """Hochreiter and Schmidhuber 1997 with forget gates (Gers et al. 2000). Gates [N, 4D], h and c [N, D]."""
    i, f, g, o = (inputs + hidden).chunk(4, -1)
    c = torch.addcmul(torch.sigmoid(f) * cells[1], torch.sigmoid(i), torch.tanh(g))
    return torch.sigmoid(o) * torch.tanh(c), c
