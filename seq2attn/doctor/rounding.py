"""bfloat16 against float32: no law, but how far the words that they take agree."""

from __future__ import annotations

import copy

import torch

from seq2attn.doctor.findings import DoesNotApplyError, Found, worst
from seq2attn.doctor.patient import Patient, log_probs

CLEAR = 0.1
"""By how much a word's log-probability leads the next one's where float32 is held to be sure of it."""
MOST = 0.05
"""The share of such words that bfloat16 may take otherwise."""


@torch.no_grad()
def bfloat16_agrees(patient: Patient) -> Found:
    """Where float32 is sure of the next word, bfloat16 (by autocasting, as in training) nearly always takes it too."""
    model = copy.deepcopy(patient.plain).float()
    counted = differing = 0
    shares = list[tuple[int, float]]()
    for reading in patient.batches():
        exact = log_probs(model, reading)
        with torch.autocast(patient.device.type, torch.bfloat16):
            rounded = log_probs(model, reading)
        for (sentence, one), (_, other) in zip(reading.rows(exact), reading.rows(rounded), strict=True):
            best = one.topk(2, -1)
            sure = best.values[:, 0] - best.values[:, 1] >= CLEAR
            differs = (best.indices[:, 0] != other.argmax(-1)) | other.isnan().any(-1)
            number = int((differs & sure).sum())
            counted, differing = counted + int(sure.sum()), differing + number
            shares.append((sentence.number, float(number)))
    if not counted:
        raise DoesNotApplyError(f"float32 is sure of no word: none leads by {CLEAR} in log-probability")
    most = worst(shares, 0).where if differing else None
    note = f"{counted - differing:,} of {counted:,} words that float32 is sure of are the same"
    return Found(differing / counted, MOST, most, note)
