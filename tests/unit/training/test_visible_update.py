"""The update can be read in one place, and lies few calls above the model."""

import sys
from pathlib import Path

import seq2attn
from seq2attn.models import Seq2Seq
from seq2attn.training import loop
from tests.support.trainings import train_run

PACKAGE = str(Path(seq2attn.__file__).parent)
STEPS = ("self.wrapped(", ".backward()", "clip_grad_norm_(", "self._schedule()", "self.optimizer.step()")
MAX_LINES, MAX_CALLS = 60, 6


def test_forward_backward_clip_schedule_and_step_are_in_one_place():
    lines = Path(loop.__file__).read_text(encoding="utf-8").splitlines()
    places = [number for number, line in enumerate(lines) if any(step in line for step in STEPS)]
    assert len(places) == len(STEPS) and max(places) - min(places) < MAX_LINES


def test_few_calls_lie_between_the_loop_and_the_model(corpus, monkeypatch):
    forward, calls = Seq2Seq.forward, []

    def record(self, *arguments, **options):
        names, frame = ["forward"], sys._getframe(1)
        while frame is not None and frame.f_code.co_name not in ("_epoch", "train"):
            if frame.f_code.co_filename.startswith(PACKAGE):
                names.append(frame.f_code.co_name)
            frame = frame.f_back
        if "update" in names:
            calls.append(names)
        return forward(self, *arguments, **options)

    monkeypatch.setattr(Seq2Seq, "forward", record)
    train_run(corpus, "run", max_duration=["2 updates"])
    assert len(calls) == 2 and all(len(names) <= MAX_CALLS for names in calls), calls
