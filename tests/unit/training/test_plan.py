"""Plans of trainings that a time ends, from their speed: pure functions, then trainings."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from seq2attn.config.duration import Duration
from seq2attn.experiment.training_config import TrainingConfig
from seq2attn.io.terminal import plural
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.plan import Speed, plan_training
from seq2attn.training.resolve import resolve_training
from seq2attn.training.train_state import TrainState, fraction_done, is_report_due, reached_limits

ALONE = DistributedContext(rank=0, size=1, device=torch.device("cpu"))
LENGTHS = np.full((3_000, 2), 14)
COSINE = {"kind": "cosine"}
MAX_VALIDATIONS, MIN_VALIDATIONS = 8, 3


def plan(speed, state=None, per_epoch=100, **training):
    measure = None if speed is None else lambda config: speed
    return plan_training(TrainingConfig(**training), per_epoch, state or TrainState(), measure)


def resolve(speed, state=None, **training):
    config = TrainingConfig(**{"batch": {"tokens": 256}, **training})
    return resolve_training(config, LENGTHS, ALONE, state or TrainState(), lambda config: speed)


def used(plan, speed):
    """The time of a plan that begins at update 0."""
    count = math.ceil(plan.updates / plan.validation_every.value)
    return plan.updates * speed.seconds_per_update + count * speed.seconds_per_validation


@pytest.mark.parametrize("seconds", [60, 600, 3600, 30_000])
@pytest.mark.parametrize("update", [0.01, 0.7, 15])
@pytest.mark.parametrize("validation", [0.001, 4, 30, 900])
def test_updates_and_validations_fill_the_time(seconds, update, validation):
    speed = Speed(update, 1000.0, validation)
    found = plan(speed, max_duration=[f"{seconds} seconds"])
    count = math.ceil(found.updates / found.validation_every.value)
    assert found.is_timed and found.seconds == seconds and found.validation_every.unit == "updates"
    if seconds > 2 * (update + MIN_VALIDATIONS * validation):  # else the time is too short
        assert 0.75 * seconds < used(found, speed) <= seconds + 1e-6
    assert count <= MAX_VALIDATIONS
    if found.updates > 100:
        assert count >= min(MIN_VALIDATIONS, max(1, int(0.75 * seconds / validation)))
    if count > MIN_VALIDATIONS:
        assert count * validation <= seconds / 10
    elif found.updates > 100:
        assert (count + 1) * validation > seconds / 10


@pytest.mark.parametrize(("validation", "count"), [(1, 8), (7, 8), (8, 7), (19, 3), (150, 3), (200, 2), (400, 1)])
def test_there_are_three_validations_as_long_as_they_leave_a_quarter_of_the_time(validation, count):
    found = plan(Speed(0.01, 1000.0, validation), max_duration=["10 minutes"])
    assert math.ceil(found.updates / found.validation_every.value) == count


def test_limits_in_epochs_or_updates_end_it_where_they_are_sooner():
    speed = Speed(1.0, 1000.0, 5.0)
    found = plan(speed, max_duration=["9 epochs", "1 hour"])
    assert (found.updates, found.is_timed, found.validation_every) == (900, False, Duration(1, "epochs"))
    assert found.seconds == 900 + 9 * 5
    assert plan(speed, max_duration=["99 epochs", "1 hour"]) == plan(speed, max_duration=["1 hour", "2 hours"])
    assert plan(speed, max_duration=["9 epochs"]) == plan(None, max_duration=["9 epochs"])
    assert plan(None, max_duration=["9 epochs"]).updates == 900
    slow = Speed(0.1, 1000.0, 10.0)  # whose validations, one in each epoch, would take twice the time
    found = plan(slow, max_duration=["300 epochs", "1 hour"])
    assert (found.updates, found.is_timed) == (30_000, False)
    assert found.seconds == pytest.approx(used(found, slow)) and found.seconds <= 3600


@pytest.mark.parametrize(("epochs", "per_epoch", "updates"), [(1.1, 100, 110), (2.2, 50, 110), (1.101, 100, 111)])
def test_a_share_of_an_epoch_ends_at_the_update_that_completes_it(epochs, per_epoch, updates):
    limit = [f"{epochs} epochs"]
    assert plan(None, per_epoch=per_epoch, max_duration=limit).updates == updates
    state = TrainState(update=updates, epoch=updates // per_epoch, updates_per_epoch=per_epoch)
    state = replace(state, updates_in_epoch=updates % per_epoch)
    assert reached_limits(state, TrainingConfig(max_duration=limit))
    before = replace(state, updates_in_epoch=updates % per_epoch - 1)
    assert not reached_limits(before, TrainingConfig(max_duration=limit))


@pytest.mark.parametrize(("every", "count"), [("50 updates", 20), ("2 epochs", 5), ("105 seconds", 10)])
def test_a_given_interval_of_validations_is_kept(every, count):
    speed, seconds = Speed(1.0, 1000.0, 5.0), 1000 + 5 * count
    found = plan(speed, max_duration=[f"{seconds} seconds"], validation={"every": every})
    assert str(found.validation_every) == every and found.updates == 1000


def test_a_resumption_plans_the_time_that_is_left():
    speed = Speed(1.0, 1000.0, 0.0001)
    for seconds in (600, 3600):
        state = TrainState(update=2_000, epoch=20, updates_per_epoch=100, seconds=300.0)
        found = plan(speed, state, max_duration=[f"{seconds} seconds"])
        assert found.updates == pytest.approx(2_000 + seconds - 300, abs=1)
    assert plan(speed, state, max_duration=["5 minutes"]).updates == 2_000


def test_a_resumption_after_its_limit_has_nothing_left():
    state = TrainState(update=2_000, epoch=20, updates_per_epoch=100)
    found = plan(Speed(1.0, 1000.0, 5.0), state, max_duration=["5 epochs", "1 hour"])
    assert (found.num_left, found.seconds) == (0, 0) and "about 0.0 epochs (0 updates, " in found.outlook()


def test_an_end_without_a_date_is_not_named():
    outlooks = [plan(Speed(1.0, 9.0, 5.0), max_duration=[f"{hours} hours"]).outlook() for hours in (1, 10**8, 10**15)]
    assert [" until " in line for line in outlooks] == [True, False, False]


@pytest.mark.parametrize("schedule", ["cosine", "inverse-sqrt", {"kind": "noam", "dim": 8}])
def test_schedules_follow_the_planned_updates(schedule):
    schedule = schedule if isinstance(schedule, dict) else {"kind": schedule}
    config, found, notes = resolve(Speed(0.5, 1000.0, 1.0), lr_schedule=schedule, max_duration=["10 minutes"])
    assert found.updates == 1184  # 8 validations
    assert config.lr_schedule.warmup_updates == 118 and config.validation.every == Duration(148, "updates")
    assert "warm-up: 118 updates, a tenth of about 1,184" in notes
    if schedule == COSINE:
        assert config.lr_schedule.total_updates == 1184


def test_numbers_that_do_not_suit_the_time_cause_warnings():
    speed, time = Speed(2.0, 1000.0, 0.0001), ["99 epochs", "1 hour"]

    def warnings(**schedule):
        return resolve(speed, max_duration=[*time], lr_schedule=schedule)[2]

    (line,) = warnings(kind="cosine", total_updates=9_000, warmup_updates=9)
    assert line.startswith("warning: the cosine schedule ends at update 9,000, and training after about 1,799;")
    assert warnings(kind="cosine", total_updates=1_900, warmup_updates=9) == []
    (line,) = warnings(kind="noam", dim=8, warmup_updates=901)
    assert line.startswith("warning: warm-up is 901 updates; training will end after about 1,799:")
    assert warnings(kind="noam", dim=8, warmup_updates=890) == []


def test_a_resumption_that_keeps_its_plan_has_no_warning_about_it():
    config = TrainingConfig(batch={"tokens": 256}, max_duration=["99 epochs", "1 hour"], lr_schedule=COSINE)
    trained, *_ = resolve_training(config, LENGTHS, ALONE, TrainState(), lambda config: Speed(2.0, 1000.0, 0.0001))
    state = TrainState(update=500, epoch=1, planned_updates=trained.lr_schedule.total_updates)
    assert resolve_training(trained, LENGTHS, ALONE, state, None)[2] == []


def test_a_time_that_is_too_short_is_said_and_planned():
    config, found, notes = resolve(Speed(2.0, 1000.0, 4.0), lr_schedule=COSINE, max_duration=["1 minute"])
    assert found.updates == 24  # three validations
    assert any("is enough for about 24 of the" in line and "`seq2attn init" in line for line in notes)
    config, found, _ = resolve(Speed(500.0, 1.0, 4000.0), lr_schedule=COSINE, max_duration=["1 minute"])
    assert (found.updates, config.lr_schedule.warmup_updates, config.validation.every.value) == (1, 1, 1)
    assert not any("is enough" in line for line in resolve(Speed(0.01, 9.0, 0.1), max_duration=["1 hour"])[2])


def test_numbers_agree_with_their_nouns():
    _, found, notes = resolve(Speed(500.0, 1.0, 4000.0), lr_schedule=COSINE, max_duration=["1 minute"])
    text = "; ".join([*notes, found.outlook()])
    assert "cosine schedule: 1 update;" in text and "warm-up: 1 update, " in text and "(1 update, " in text
    assert [plural(n, "pair") for n in (0, 1, 2000)] == ["0 pairs", "1 pair", "2,000 pairs"]
    assert [plural(n, "hour", ",.2g") for n in (0.999, 1.2)] == ["1 hour", "1.2 hours"]


def test_other_work_on_the_machine_is_said():
    for is_busy in (True, False):
        notes = resolve(Speed(0.1, 1000.0, 1.0, is_busy), max_duration=["1 hour"])[2]
        assert any("other work" in line for line in notes) == is_busy


def test_a_planned_schedule_ends_at_its_last_update_and_not_by_the_clock():
    training = TrainingConfig(max_duration=["1 hour", "99 epochs"])
    state = TrainState(update=500, epoch=5, updates_per_epoch=100, seconds=9_000.0)
    assert reached_limits(state, training)
    planned = TrainState(**{**vars(state), "planned_updates": 1_000})
    assert not reached_limits(planned, training) and fraction_done(planned, training) == 0.5
    assert reached_limits(TrainState(**{**vars(planned), "update": 1_000}), training)
    assert reached_limits(TrainState(**{**vars(planned), "epoch": 99}), training)


def test_reports_by_time_begin_after_half_of_it():
    def reports(every, seconds_per_update, seconds):
        times = [seconds_per_update * number for number in range(int(seconds / seconds_per_update) + 1)]
        return [after for before, after in pairwise(times) if is_report_due(every, at(before), at(after))]

    def at(seconds):
        return {"seconds": seconds, "minutes": seconds / 60, "updates": seconds}

    half_a_minute = Duration(30, "seconds")
    assert reports(half_a_minute, 1, 100) == [15, 30, 60, 90]
    assert reports(half_a_minute, 20, 100) == [20, 40, 60, 100]
    assert reports(Duration(0.5, "minutes"), 7, 70) == [21, 35, 63]
    assert reports(Duration(40, "updates"), 1, 100) == [40, 80]
