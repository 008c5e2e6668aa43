"""Schedules against values of the papers' formulas, computed by hand."""

from __future__ import annotations

import math

import pytest
from pydantic import TypeAdapter, ValidationError

from seq2attn.training.lr_schedules import LRScheduleConfig, SchedulePoint


def at(config, update=1, epoch=0.0, plateaus=0):
    schedule = TypeAdapter(LRScheduleConfig).validate_python(config)
    return schedule.lr_factor(SchedulePoint(update, epoch, plateaus))


def test_noam():
    # Vaswani et al. 2017, eq. 3: 512^-0.5 * min(step^-0.5, step * 4000^-1.5). Both are 4000^-0.5 at step 4000, where
    # the rate is 1 / sqrt(512 * 4000) = 1 / sqrt(2048000), its highest.
    noam = {"kind": "noam", "dim": 512, "warmup_updates": 4000}
    peak = 1 / math.sqrt(2_048_000)
    assert at(noam, 4000) == pytest.approx(peak)
    assert at(noam, 1) == pytest.approx(peak / 4000)
    assert at(noam, 2000) == pytest.approx(peak / 2)
    assert at(noam, 16_000) == pytest.approx(peak / 2)
    assert at({**noam, "factor": 3.0}, 16_000) == pytest.approx(1.5 * peak)


def test_inverse_square_root():
    schedule = {"kind": "inverse-sqrt", "warmup_updates": 100}
    assert [at(schedule, u) for u in (1, 50, 100, 400, 10_000)] == pytest.approx([0.01, 0.5, 1, 0.5, 0.1])


def test_cosine():
    # Loshchilov and Hutter 2017, eq. 5: least + (1 - least) * (1 + cos(pi * t / T)) / 2, t counted from the warm-up.
    schedule = {"kind": "cosine", "total_updates": 110, "warmup_updates": 10}
    assert [at(schedule, u) for u in (1, 5, 10)] == pytest.approx([0.1, 0.5, 1])
    a_third = 10 + 100 / 3
    assert at({**schedule, "total_updates": 70}, 30) == pytest.approx(0.75)  # a third of the way: (1 + 1/2) / 2
    assert [at(schedule, u) for u in (60, 110, 500)] == pytest.approx([0.5, 0, 0], abs=1e-12)
    assert at(schedule, 43) > 0.75 > at(schedule, 44)
    assert 43 < a_third < 44
    assert at({**schedule, "min_lr_factor": 0.2}, 60) == pytest.approx(0.2 + 0.8 / 2)
    assert at({**schedule, "min_lr_factor": 0.2}, 999) == pytest.approx(0.2)
    assert at({"kind": "cosine", "total_updates": 4}, 4) == pytest.approx(0, abs=1e-12)


def test_constant():
    assert [at({"kind": "constant"}, u) for u in (1, 10**6)] == [1, 1]
    assert [at({"kind": "constant", "warmup_updates": 4}, u) for u in (1, 3, 4, 9)] == [0.25, 0.75, 1, 1]


def test_plateau():
    schedule = {"kind": "plateau", "factor": 0.5, "warmup_updates": 10}
    assert [at(schedule, 100, plateaus=n) for n in range(4)] == [1, 0.5, 0.25, 0.125]
    assert at(schedule, 5, plateaus=1) == 0.25
    assert at({"kind": "plateau", "factor": 0.7}, 1, plateaus=2) == pytest.approx(0.49)


def test_halving():
    # Luong et al. 2015, section 4.1: "after 5 epochs, we begin to halve the learning rate every epoch".
    schedule = {"kind": "halving", "start_epoch": 5}
    epochs = (0, 4, 4.99, 5, 5.99, 6, 7.5, 11.99)
    assert [at(schedule, epoch=e) for e in epochs] == [1, 1, 1, 1 / 2, 1 / 2, 1 / 4, 1 / 8, 1 / 128]
    # With dropout: "for 12 epochs and halve the learning rate after 8".
    assert [at({**schedule, "start_epoch": 8}, epoch=e) for e in (7.9, 8, 9)] == [1, 1 / 2, 1 / 4]
    slower = {**schedule, "every_epochs": 2}
    assert [at(slower, epoch=e) for e in (4.9, 5, 6.9, 7, 9)] == [1, 1 / 2, 1 / 2, 1 / 4, 1 / 8]
    halfway = {**schedule, "start_epoch": 1.5, "every_epochs": 0.5}
    assert [at(halfway, epoch=e) for e in (1, 1.49, 1.5, 2, 2.5)] == [1, 1, 1 / 2, 1 / 4, 1 / 8]


@pytest.mark.parametrize("config", [{"kind": "plateau", "factor": 1.0}, {"kind": "noam"}, {"kind": "step"}])
def test_invalid_schedules_are_refused(config):
    with pytest.raises(ValidationError):
        at(config)
