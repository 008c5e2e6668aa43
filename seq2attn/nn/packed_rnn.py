"""GRU or LSTM over sentences of different lengths: PyTorch's function, trained faster on devices without cuDNN.

Rows of a `PackedSequence` are all first tokens, then all second tokens, and so on, longest sentence first: at each step
the unfinished sentences are the first n.
"""

from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from seq2attn.nn.kernels.linear import linear
from seq2attn.nn.kernels.rnn_cells import FUSED_CELLS, CellType, RNNState
from seq2attn.nn.precision import autocast_dtype

Inputs = TypeVar("Inputs", Tensor, PackedSequence)


def run_packed(rnn: nn.GRU | nn.LSTM, packed: PackedSequence) -> tuple[PackedSequence, RNNState]:
    """Output of `rnn(packed)`: h of the top layer, and the final h (and c) [layers * directions, B, D].

    The sentences are sorted: `packed` has no indices of another order.
    """
    data, rows = packed.data, packed.batch_sizes.tolist()
    finals = list[RNNState]()
    for layer in range(rnn.num_layers):
        if layer:
            data = F.dropout(data, rnn.dropout, rnn.training)
        suffixes = ["", "_reverse"] if rnn.bidirectional else [""]
        outputs, layer_finals = zip(*(_run(rnn, f"l{layer}{suffix}", data, rows) for suffix in suffixes), strict=True)
        data = torch.cat(outputs, 1)
        finals += layer_finals
    return PackedSequence(data, packed.batch_sizes), tuple(torch.stack(part) for part in zip(*finals, strict=True))


def run_rnn(rnn: nn.GRU | nn.LSTM, inputs: Inputs, state: RNNState | None = None) -> tuple[Inputs, RNNState]:
    """Outputs and final state [layers * directions, B, D] of PyTorch's RNN, in the dtype of its weights.

    Autocast is disabled: cuDNN's RNNs would run in float16 within it, whatever its dtype. Gradients then underflow
    without loss scaling, and `torch.cat` refuses float16 beside bfloat16 (pytorch/pytorch#132715).
    """
    weight = next(rnn.parameters())
    if autocast_dtype(weight.device) is not None:
        with torch.autocast(weight.device.type, enabled=False):
            state = None if state is None else tuple(part.to(weight.dtype) for part in state)
            return run_rnn(rnn, inputs.to(weight.dtype), state)
    outputs, final = rnn(inputs, state[0] if state is not None and len(state) == 1 else state)
    return outputs, final if isinstance(final, tuple) else (final,)


def _run(rnn: nn.GRU | nn.LSTM, name: str, data: Tensor, rows: list[int]) -> tuple[Tensor, RNNState]:
    """One layer in one direction: [R, I] -> h [R, D], and the final state [B, D] in order of the lengths."""
    w_input, w_hidden, b_input, b_hidden = (
        getattr(rnn, f"{part}_{name}") for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    cell_type: CellType = "gru" if isinstance(rnn, nn.GRU) else "lstm"
    gates = linear(data, w_input, b_input)
    cell = FUSED_CELLS[cell_type](gates, None, w_hidden, b_hidden, rows)
    is_reverse = name.endswith("_reverse")
    initial_rows, dtype = rows[-1 if is_reverse else 0], torch.promote_types(gates.dtype, torch.float32)
    parts = 1 if cell_type == "gru" else 2
    state: RNNState = tuple(gates.new_zeros(initial_rows, rnn.hidden_size, dtype=dtype) for _ in range(parts))
    outputs, finished = [gates] * len(rows), list[RNNState]()
    for step in reversed(range(len(rows))) if is_reverse else range(len(rows)):
        now, before = rows[step], state[0].size(0)
        if now < before:
            finished.append(tuple(part[now:] for part in state))
            state = tuple(part[:now] for part in state)
        elif now > before:
            state = tuple(F.pad(part, (0, 0, 0, now - before)) for part in state)
        state = cell(step, None, state)
        outputs[step] = state[0]
    if finished:
        state = tuple(torch.cat(parts) for parts in zip(state, *reversed(finished), strict=True))
    return torch.cat(outputs), state
