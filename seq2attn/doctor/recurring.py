"""Recurrences that are trained by steps of our own, against PyTorch's cells in double precision.

Shapes: B sentences, S source words, T target words, E width of the words, F of what is fed, D of the cells.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn

from seq2attn.decoders.cells import FedCells
from seq2attn.doctor.findings import PART, DoesNotApplyError, Found, apart_in_share, worst
from seq2attn.doctor.patient import Patient, Reading
from seq2attn.encoders.recurrent import RecurrentEncoder


def recurrence_is_pytorchs(patient: Patient) -> Found:
    """The encoder's packed sentences and the decoder's fed cells step as `nn.GRU` and `nn.LSTM` do, learning or not."""
    encoder = patient.plain.encoder
    cells = [part for part in patient.plain.decoder.modules() if isinstance(part, FedCells)]
    if not isinstance(encoder, RecurrentEncoder) and not cells:
        raise DoesNotApplyError("it has no recurrence of ours")

    def deviations() -> Iterator[tuple[int, float]]:
        for reading in patient.batches():
            if isinstance(encoder, RecurrentEncoder):
                yield from _encoded(patient, encoder, reading)
            for part in cells:
                yield from _fed(patient, part, reading)

    return worst(deviations(), PART)


def _encoded(patient: Patient, encoder: RecurrentEncoder, reading: Reading) -> Iterator[tuple[int, float]]:
    """The states of all sentences together, against those of each alone by PyTorch."""
    exact = copy.deepcopy(encoder.rnn).double()
    with torch.no_grad():
        words = patient.plain.source(reading.source)
    for is_learning in (False, True):
        with torch.set_grad_enabled(is_learning):
            keys = encoder(words, reading.mask).keys.detach()
        for row, sentence in enumerate(reading.sentences):
            n = len(sentence.source) + 1
            with torch.no_grad():
                alone = exact(words[row : row + 1, :n].double())[0]
            yield sentence.number, apart_in_share(keys[row : row + 1, :n], alone)


def _fed(patient: Patient, cells: FedCells, reading: Reading) -> Iterator[tuple[int, float]]:
    """The top cell's states while it is fed chance vectors, against those of PyTorch's cells."""
    with torch.no_grad():
        words = patient.plain.target(reading.target)
    (rows, length, _), width = words.shape[:3], cells.feed.in_features
    draw = torch.Generator().manual_seed(0)
    fed = torch.randn(length, rows, width, generator=draw).to(words)
    exact = _by_pytorch(cells, words.double(), fed.double())
    for is_learning in (False, True):
        with torch.set_grad_enabled(is_learning):
            states = _by_us(cells, words, fed).detach()
        pairs = zip(reading.rows(states), reading.rows(exact), strict=True)
        for (sentence, ours), (_, theirs) in pairs:
            yield sentence.number, apart_in_share(ours, theirs)


def _by_us(cells: FedCells, words: Tensor, fed: Tensor) -> Tensor:
    """words [B, T, E], fed [T, B, F] -> the top h [B, T, D]"""
    read, states = cells.steps(words), list[Tensor]()
    now = [
        tuple(words.new_zeros(len(words), _width(cells)) for _ in range(cells.gates - 2))
        for _ in cells.hidden
    ]
    for t, given in enumerate(fed):
        top, now = read(t, given, now)
        states.append(top)
    return torch.stack(states, 1)


@torch.no_grad()
def _by_pytorch(cells: FedCells, words: Tensor, fed: Tensor) -> Tensor:
    """The same by PyTorch's layers, of which the lowest is given word and vector side by side."""
    given = torch.cat([words, fed.transpose(0, 1)], -1)
    lowest = torch.cat([cells.words.weight, cells.feed.weight], 1), cells.words.bias
    upper = cast("list[nn.Linear]", list(cells.upper))
    inputs = [lowest, *((layer.weight, layer.bias) for layer in upper)]
    for (weights, bias), hidden in zip(inputs, cast("list[nn.Linear]", list(cells.hidden)), strict=True):
        kind = nn.GRU if cells.kind == "gru" else nn.LSTM
        own = kind(weights.size(1), _width(cells), batch_first=True, device=words.device).double()
        for name, value in (
            ("weight_ih", weights),
            ("bias_ih", bias),
            ("weight_hh", hidden.weight),
            ("bias_hh", hidden.bias),
        ):
            getattr(own, f"{name}_l0").copy_(value)
        given = own(given)[0]
    return given


def _width(cells: FedCells) -> int:
    return cells.feed.out_features // cells.gates
