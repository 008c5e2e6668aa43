"""How far a training is, in the units in which people say how long it shall be."""

from __future__ import annotations

import math
from collections.abc import Iterable

from seq2attn.config.duration import SECONDS, Duration
from seq2attn.training.train_state import TrainState


def elapsed(state: TrainState) -> dict[str, float]:
    """How much has been trained, by unit."""
    times = {unit: state.seconds / seconds for unit, seconds in SECONDS.items()}
    return {"updates": state.update, "epochs": state.epochs, **times}


def fraction_done(until: Iterable[Duration], state: TrainState) -> float:
    """How much of the shortest of some durations is over: 1 at its end."""
    done = elapsed(state)
    return max(done[limit.unit] / limit.value for limit in until)


def is_due(every: Duration, before: dict[str, float], now: dict[str, float]) -> bool:
    """Whether a multiple of `every` was reached between two moments."""

    def times(moment: dict[str, float]) -> int:
        return math.floor(
            moment[every.unit] / every.value + 1e-9
        )  # three tenths over a tenth is not quite three

    return times(now) > times(before)
