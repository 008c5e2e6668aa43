"""A GRU or an LSTM over sentences of many lengths, by hand: PyTorch's function, trained faster where cuDNN is not.

Rows of a `PackedSequence` are all first words, then all second words, and so on, longest sentence first: at each step
the sentences that are still going on are the first n.
"""

from __future__ import annotations

from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from seq2attn.nn.linear import autocast_dtype, linear
from seq2attn.nn.rnn.fused_cells import FUSED_CELLS, CellType
from seq2attn.nn.rnn.reference_cells import RNNState

Inputs = TypeVar("Inputs", Tensor, PackedSequence)


def run_packed(rnn: nn.GRU | nn.LSTM, packed: PackedSequence) -> tuple[PackedSequence, RNNState]:
    """What `rnn(packed)` gives: the top layer's h, and the last h (and c) [layers * directions, B, D]."""
    data, rows = packed.data, packed.batch_sizes.tolist()
    finals = list[RNNState]()
    for layer in range(rnn.num_layers):
        if layer:
            data = F.dropout(data, rnn.dropout, rnn.training)
        ends = ["", "_reverse"] if rnn.bidirectional else [""]
        outputs, last = zip(*(_read(rnn, f"l{layer}{end}", data, rows) for end in ends), strict=True)
        data = torch.cat(outputs, 1)
        finals += last
    order = packed.unsorted_indices
    final = tuple(torch.stack(part) for part in zip(*finals, strict=True))
    if order is not None:
        final = tuple(part.index_select(1, order) for part in final)
    return PackedSequence(data, packed.batch_sizes, packed.sorted_indices, order), final


def run_rnn(rnn: nn.GRU | nn.LSTM, inputs: Inputs, cells: RNNState | None = None) -> tuple[Inputs, RNNState]:
    """Outputs and last cells [layers * directions, B, D] of PyTorch's own RNN, in the type of its weights.

    So it is within autocast as well, as cuDNN's RNNs would run in float16 there whatever type was asked for: gradients
    underflow without loss scaling, and `torch.cat` refuses float16 beside bfloat16 (pytorch/pytorch#132715).
    """
    weight = next(rnn.parameters())
    if autocast_dtype(weight.device) is not None:
        with torch.autocast(weight.device.type, enabled=False):
            cells = None if cells is None else tuple(part.to(weight.dtype) for part in cells)
            return run_rnn(rnn, inputs.to(weight.dtype), cells)
    outputs, last = rnn(inputs, cells[0] if cells is not None and len(cells) == 1 else cells)
    return outputs, last if isinstance(last, tuple) else (last,)


def _read(rnn: nn.GRU | nn.LSTM, name: str, data: Tensor, rows: list[int]) -> tuple[Tensor, RNNState]:
    """One layer in one direction: [R, I] -> h [R, D], and the last cells [B, D] in order of the lengths."""
    w_input, w_hidden, b_input, b_hidden = (
        getattr(rnn, f"{part}_{name}") for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    kind: CellType = "gru" if isinstance(rnn, nn.GRU) else "lstm"
    gates = linear(data, w_input, b_input)
    cell = FUSED_CELLS[kind](gates, None, w_hidden, b_hidden, rows)
    parts, dim = 1 if kind == "gru" else 2, rnn.hidden_size
    backwards = name.endswith("_reverse")
    first, carried = rows[-1 if backwards else 0], torch.promote_types(gates.dtype, torch.float32)
    cells: RNNState = tuple(gates.new_zeros(first, dim, dtype=carried) for _ in range(parts))
    outputs, ended = [gates] * len(rows), list[RNNState]()
    for step in reversed(range(len(rows))) if backwards else range(len(rows)):
        now, before = rows[step], cells[0].size(0)
        if now < before:
            ended.append(tuple(part[now:] for part in cells))
            cells = tuple(part[:now] for part in cells)
        elif now > before:
            cells = tuple(F.pad(part, (0, 0, 0, now - before)) for part in cells)
        cells = cell(step, None, cells)
        outputs[step] = cells[0]
    if ended:
        cells = tuple(torch.cat(parts) for parts in zip(cells, *reversed(ended), strict=True))
    return torch.cat(outputs), cells
