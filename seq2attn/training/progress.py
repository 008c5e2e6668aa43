"""How far a training is, in the units in which people say how long it shall be."""

from __future__ import annotations

import math
from collections.abc import Iterable

from seq2attn.config.duration import SECONDS, Amount
from seq2attn.training.train_state import TrainState


def amounts(state: TrainState) -> dict[str, float]:
    """How much has been trained, by unit."""
    times = {unit: state.seconds / seconds for unit, seconds in SECONDS.items()}
    return {"updates": state.update, "epochs": state.epochs, **times}


def share_done(until: Iterable[Amount], state: TrainState) -> float:
    """How much of the shortest of some durations is over: 1 at its end."""
    done = amounts(state)
    return max(done[limit.unit] / limit.number for limit in until)


def is_due(every: Amount, before: dict[str, float], now: dict[str, float]) -> bool:
    """Whether a multiple of `every` was reached between two moments."""

    def times(moment: dict[str, float]) -> int:
        return math.floor(
            moment[every.unit] / every.number + 1e-9
        )  # three tenths over a tenth is not quite three

    return times(now) > times(before)
