"""Plan of a training: its last update and its validations, by its limits and the speed that was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from seq2attn.config.duration import SECONDS, Duration
from seq2attn.experiment.training_config import TrainingConfig
from seq2attn.io.terminal import plural
from seq2attn.optim.lr_schedules import LRScheduleConfig, total_updates, warmup_updates
from seq2attn.training.train_state import TrainState

MAX_WARMUP = 4000
MAX_SHARES = {8: 0.1, 7: 0.1, 6: 0.1, 5: 0.1, 4: 0.1, 3: 0.75, 2: 0.75}
"""Automatic numbers of validations where a time ends the training, and the largest share of it that they may take."""

BUSY = "warning: the machine had other work while the speed was measured; alone it trains faster"


@dataclass(frozen=True)
class Speed:
    """Speed of a training with given batches, model and processes on this machine."""

    seconds_per_update: float
    target_tokens_per_second: float  # of all processes
    seconds_per_validation: float
    is_busy: bool = False  # something else used the machine meanwhile


@dataclass(frozen=True)
class Plan:
    """The rest of a training."""

    updates: int | None  # the last one; None if it ends by a time, and the speed is not known
    validation_every: Duration
    per_epoch: int  # updates
    speed: Speed | None = None  # if a time can end the training
    num_left: int = 0  # updates to come
    seconds: float = 0.0  # until the end, with validations
    is_timed: bool = False  # a time will end it

    def outlook(self) -> str:
        """The future of the training, for the log; empty without a speed."""
        if self.speed is None:
            return ""
        rate = f"{self.speed.target_tokens_per_second:,.0f} target tokens/s"
        until = ""
        with suppress(OverflowError):  # no date is later than those of the year 9999
            until = f" until {datetime.now() + timedelta(seconds=self.seconds):%Y-%m-%d %H:%M}"
        epochs, updates = f"{self.num_left / self.per_epoch:,.1f} epochs", plural(self.num_left, "update")
        return f"; about {epochs} ({updates}, {rate}){until}"

    def kept(self, state: TrainState, planned_updates: int) -> Plan:
        """The plan of a training that is resumed, at its mean speed so far."""
        left, done = max(0, planned_updates - state.update), max(1, state.update)
        speed = Speed(state.seconds / done, state.target_tokens / max(state.seconds, 1e-9), 0.0)
        return replace(self, speed=speed, num_left=left, seconds=left * speed.seconds_per_update)

    def warnings(self, schedule: LRScheduleConfig) -> list[str]:
        """Warnings about a time that is too short, and a schedule whose numbers do not suit the plan."""
        updates, warmup, total = self.updates or 0, warmup_updates(schedule), total_updates(schedule)
        lines = [BUSY] if self.speed is not None and self.speed.is_busy else []
        if self.is_timed and updates < self.per_epoch:
            lines.append(
                f"warning: the time is enough for about {updates:,} of the {plural(self.per_epoch, 'update')} of an"
                " epoch: take a smaller model (`seq2attn init --hours 1`), fewer pairs, shorter validations"
                " (`max_sentences`), or a longer `training.max_duration`"
            )
        if updates and isinstance(warmup, int) and 2 * warmup > max(2, updates):
            lines.append(
                f"warning: warm-up is {plural(warmup, 'update')}; training will end after about {updates:,}: a tenth of"
                f" that is usual, `training.lr_schedule.warmup_updates: {auto_warmup(updates)}`"
            )
        if isinstance(total, int) and not 0.9 * updates <= total <= (1.1 * updates if self.is_timed else math.inf):
            lines.append(
                f"warning: the cosine schedule ends at update {total:,}, and training after about {updates:,};"
                " `training.lr_schedule.total_updates: auto` decays the learning rate until then"
            )
        return lines


def auto_warmup(updates: int) -> int:
    """A tenth of the updates, at most the usual 4,000."""
    return max(1, min(MAX_WARMUP, updates // 10))


def plan_training(
    training: TrainingConfig, per_epoch: int, state: TrainState, measure: Callable[[TrainingConfig], Speed] | None
) -> Plan:
    """The rest of a training of `per_epoch` updates, from `state` on; its speed is measured if a time can end it."""
    given, times = training.validation.every, [x.seconds for x in training.max_duration if x.unit in SECONDS]
    every = Duration(1, "epochs") if given == "auto" else given
    limit = num_updates(training.max_duration, per_epoch, state)
    if not times or measure is None:
        return Plan(limit, every, per_epoch)
    speed, seconds = measure(training), max(0.0, min(times) - state.seconds)
    count = num_validations(seconds, speed)
    evenly = Duration(seconds / count, "seconds") if given == "auto" else given
    num_left = max(1, int(seconds / _seconds_per_update(evenly, per_epoch, speed) + 1e-9)) if seconds else 0
    updates = state.update + num_left
    if is_limited := limit is not None and limit <= updates:
        updates, num_left = limit, max(0, limit - state.update)  # a resumption may have a smaller limit
    if given == "auto" and not (is_limited and num_left * _seconds_per_update(every, per_epoch, speed) <= seconds):
        every = Duration(max(1, math.ceil(num_left / count)), "updates")  # one in each epoch may be too many
    needed = num_left * _seconds_per_update(every, per_epoch, speed) if is_limited else seconds
    return Plan(updates, every, per_epoch, speed, num_left, needed, is_timed=not is_limited)


def num_validations(seconds: float, speed: Speed) -> int:
    """The automatic number of validations in a training of `seconds`."""
    return next((n for n, share in MAX_SHARES.items() if n * speed.seconds_per_validation <= share * seconds), 1)


def _seconds_per_update(every: Duration, per_epoch: int, speed: Speed) -> float:
    """The time of an update with its share of the validations."""
    if every.unit in SECONDS:
        between = (every.seconds - speed.seconds_per_validation) / speed.seconds_per_update
    else:
        between = every.value * (per_epoch if every.unit == "epochs" else 1)
    return speed.seconds_per_update + speed.seconds_per_validation / max(1.0, between)


def num_updates(limits: Iterable[Duration], per_epoch: int, state: TrainState) -> int | None:
    """The updates that the limits in updates and epochs allow; None if there are only times.

    The epochs of `state` may have had other batches than those to come.
    """
    at = state.with_updates_per_epoch(per_epoch)  # where the trainer resumes
    sizes = {"updates": (1, 0), "epochs": (per_epoch, state.update - at.epoch * per_epoch - at.updates_in_epoch)}
    counted = [(limit.value, *sizes[limit.unit]) for limit in limits if limit.unit in sizes]
    return min((math.ceil(value * size - 1e-9) + more for value, size, more in counted), default=None)
