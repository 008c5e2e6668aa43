"""Laws of reading: step by step or at once, padded or not, to search or to learn."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from seq2attn.doctor.findings import WORD, Found, apart, worst
from seq2attn.doctor.patient import Patient, Reading, log_probs, stepwise

MORE = 3
"""Columns of padding that are added."""


@torch.no_grad()
def cached_is_uncached(patient: Patient) -> Found:
    """Reading word by word from a state, as search does, gives what reading all words at once gives."""

    def deviations() -> Iterator[tuple[int, float]]:
        for reading in patient.batches():
            whole, steps = log_probs(patient.plain, reading), stepwise(patient.fast, reading)
            for (sentence, one), (_, other) in zip(reading.rows(whole), reading.rows(steps), strict=True):
                yield sentence.number, apart(other, one)

    return worst(deviations(), WORD)


@torch.no_grad()
def padded_is_unpadded(patient: Patient) -> Found:
    """A sentence among others, with words where there is padding, is read as it is alone."""
    garbage = patient.sources[0][0]

    def deviations() -> Iterator[tuple[int, float]]:
        for reading in patient.batches():
            together = log_probs(patient.plain, reading.padded(MORE, garbage))
            for sentence, row in reading.rows(together):
                alone = log_probs(patient.plain, Reading.of([sentence], patient.device))
                yield sentence.number, apart(row, alone[0])

    return worst(deviations(), WORD)


def learning_is_searching(patient: Patient) -> Found:
    """Where gradients are recorded other kernels run: they read what those of search read."""

    def deviations() -> Iterator[tuple[int, float]]:
        for reading in patient.batches():
            with torch.enable_grad():
                learnt = log_probs(patient.plain, reading).detach()
            with torch.no_grad():
                read = log_probs(patient.fast, reading)
            for (sentence, one), (_, other) in zip(reading.rows(learnt), reading.rows(read), strict=True):
                yield sentence.number, apart(one, other)

    return worst(deviations(), WORD)
