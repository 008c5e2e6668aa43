"""Plan of a training that a time ends: how many updates and validations fit, at the speed that was measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Speed:
    """Speed of a training with given batches, model and processes on this machine."""

    seconds_per_update: float
    target_tokens_per_second: float  # of all processes
    seconds_per_validation: float
    is_busy: bool = False  # something else used the machine meanwhile
