"""Trainings side by side, each on a card of its own where there are some."""

from __future__ import annotations

import os
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from seq2attn.sweep.processes import SWEEP_LOG, run_all


@dataclass(frozen=True)
class Folder:
    """All that is asked of a training here."""

    folder: Path


@pytest.mark.parametrize(
    ("cards", "seen"), [("3,GPU-5", {"3": 2, "GPU-5": 2}), ("7", {"7": 4}), ("", {"": 4})], ids=str
)
def test_trainings_side_by_side_take_cards_in_turn(tmp_path, monkeypatch, cards, seen):
    tell = tmp_path / "tell"  # in the place of Python: the card that it sees, once all four run
    tell.write_text(f'#!/bin/sh\necho "card $CUDA_VISIBLE_DEVICES"\ntouch "$3.on"\n'
                    f'while [ $(ls {tmp_path} | grep -c .on) -lt 4 ]; do sleep 0.01; done\n')  # fmt: skip
    tell.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tell))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", cards)
    trainings = [Folder(tmp_path / str(number)) for number in range(4)]
    for training in trainings:
        training.folder.mkdir()
    read, _ = os.pipe()
    ended = list(run_all(trainings, 4, read))
    assert [one.exit_code for one in ended] == [0] * 4
    told = Counter((training.folder / SWEEP_LOG).read_text().removeprefix("card").strip() for training in trainings)
    assert told == seen
