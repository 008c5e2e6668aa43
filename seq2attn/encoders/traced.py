"""A GRU or an LSTM in a program of torch.export: a loop over any number of words, which `nn.GRU` would not stay.

PyTorch writes out its recurrent layers word by word, for as many words as it is shown, and packs sentences outside the
graph. `scan` loops over as many as there are; it has no public name as yet. The mask takes the place of the packing:
where there is no word, the state stays as it was.

Shapes: B sentences, S words, E width of the words, D width of a direction, G gates (3D of a GRU, 4D of an LSTM).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._higher_order_ops import scan

from seq2attn.recurrence import Cells, gru_step, lstm_step


def read_masked(rnn: nn.GRU | nn.LSTM, words: Tensor, mask: Tensor) -> tuple[Tensor, Cells]:
    """[B, S, E], bool [B, S] -> the top layer's h [B, S, directions * D], the last cells [layers * directions, B, D]

    What `rnn` makes of packed words. There is no dropout: programs are for translating.
    """
    x, is_word, finals = words.transpose(0, 1), mask.t().unsqueeze(-1), list[Cells]()
    for layer in range(rnn.num_layers):
        outputs = list[Tensor]()
        for end in ["", "_reverse"] if rnn.bidirectional else [""]:
            output, last = _read(rnn, f"l{layer}{end}", x, is_word)
            outputs.append(output)
            finals.append(last)
        x = torch.cat(outputs, -1)
    x = x.where(is_word, 0.0)
    return x.transpose(0, 1), tuple(torch.stack(part) for part in zip(*finals, strict=True))


def _read(rnn: nn.GRU | nn.LSTM, name: str, x: Tensor, is_word: Tensor) -> tuple[Tensor, Cells]:
    """One layer in one direction: [S, B, E], bool [S, B, 1] -> h [S, B, D], the last cells"""
    w_input, w_hidden, b_input, b_hidden = (
        getattr(rnn, f"{part}_{name}") for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    step, parts = (gru_step, 1) if isinstance(rnn, nn.GRU) else (lstm_step, 2)
    sentences = x.size(1)

    def read(cells: Cells, given: tuple[Tensor, Tensor]) -> tuple[Cells, Tensor]:
        gates, here = given
        new = step(gates, F.linear(cells[0], w_hidden, b_hidden), cells)
        kept = tuple(torch.where(here, a, b) for a, b in zip(new, cells, strict=True))
        # A copy, as a loop's outputs must not be each other's; named by its size, which the compiler must be told.
        return kept, kept[0].expand(sentences, -1).clone()

    first = tuple(x.new_zeros(sentences, rnn.hidden_size) for _ in range(parts))
    given = F.linear(x, w_input, b_input), is_word
    last, outputs = scan(read, first, given, reverse=name.endswith("_reverse"))
    return outputs, last
