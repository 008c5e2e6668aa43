"""The work of `seq2attn doctor`: every law in turn, and what each came to."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tqdm import tqdm

from seq2attn.doctor.exact import attention_is_its_formula, linear_is_plain
from seq2attn.doctor.exported import exported_is_native
from seq2attn.doctor.findings import DoesNotApplyError, Found, Row
from seq2attn.doctor.patient import Patient
from seq2attn.doctor.reading import cached_is_uncached, learning_is_searching, padded_is_unpadded
from seq2attn.doctor.recurring import recurrence_is_pytorchs
from seq2attn.doctor.rounding import bfloat16_agrees
from seq2attn.doctor.searching import batch_is_single, greedy_is_arg_max, scores_are_forced
from seq2attn.doctor.sentences import choose_sentences
from seq2attn.engines.targets import TARGETS
from seq2attn.run import Run
from seq2attn.translator import Translator

Law = Callable[[Patient], Found]
LAWS: dict[str, Law] = {
    "batch equals single": batch_is_single,
    "cached equals uncached": cached_is_uncached,
    "greedy equals arg max": greedy_is_arg_max,
    "padded equals unpadded": padded_is_unpadded,
    "scores equal forced scores": scores_are_forced,
    "learning reads as search": learning_is_searching,
    "attention equals its formula": attention_is_its_formula,
    "recurrence equals PyTorch's": recurrence_is_pytorchs,
    "linear layers equal plain ones": linear_is_plain,
    "bfloat16 agrees": bfloat16_agrees,
    **{f"{name} equals native": partial(exported_is_native, name=name) for name in TARGETS},
}
"""Every law by what the table calls it."""


def admit(run: Run, count: int, file: Path | None, device: str) -> tuple[str, Patient]:
    """The model of a run with sentences to read, and where these are from.

    Raises: UserError when the run or the file cannot be used.
    """
    translator = Translator.load(run.folder, device, allow_code=run.allow_code)
    plain, source, target = run.model(translator.model.device)
    sentences = choose_sentences(run, (source, target), count, file)
    patient = Patient.of(run, (plain, translator.model), translator.search, sentences.each)
    return sentences.origin, patient


def examine(patient: Patient, laws: dict[str, Law] = LAWS) -> list[Row]:
    """What each law came to. One that cannot be tried, because a part of the model fails, is broken."""
    return [
        _tried(name, law, patient) for name, law in tqdm(laws.items(), "examine", leave=False, disable=None)
    ]


def _tried(name: str, law: Law, patient: Patient) -> Row:
    start = time.perf_counter()
    found, why, broke = None, "", False
    try:
        found = law(patient)
    except DoesNotApplyError as reason:
        why = f"does not apply: {reason}"
    except Exception as error:  # whatever a stranger's part or a device makes of it: the other laws go on
        why, broke = f"could not be tried: {type(error).__name__}: {error}", True
    return Row(name, found, time.perf_counter() - start, why, broke)


def healthy(rows: Sequence[Row]) -> bool:
    """Whether no law is broken."""
    return not any(row.fails for row in rows)
