"""A session of a training: its run, processes and logs, and its end between two updates by a signal or a time limit."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, Self

from seq2attn.config.duration import Duration
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.metrics_logger import MetricsLogger

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
EX_TEMPFAIL = 75
"""Exit code at the time limit, from sysexits.h: a batch queue can start the command again."""
REPEAT_WINDOW = 1.0
"""Seconds in which a second signal counts as the first: `timeout` and batch queues signal both process and group."""


class StopRequest:
    """A request to end this session. As a context it records signals; a second signal exits at once."""

    def __init__(self, time_limit: Duration | None = None) -> None:
        self._deadline = None if time_limit is None else time.monotonic() + time_limit.seconds
        self._signal: int | None = None
        self._signal_time = 0.0
        self._previous_handlers: dict[int, Any] = {}

    @property
    def exit_code(self) -> int:
        """The exit code for the reason; 0 without a request."""
        if self._signal is not None:
            return 128 + self._signal
        return EX_TEMPFAIL if self._deadline is not None and time.monotonic() >= self._deadline else 0

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # only there handlers can be set
            is_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            recorded = [number for number in SIGNALS if not (is_nohup and number == signal.SIGHUP)]
            self._previous_handlers = {number: signal.signal(number, self._record) for number in recorded}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)

    def _record(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._signal is None:
            self._signal, self._signal_time = number, now
        elif now - self._signal_time > REPEAT_WINDOW:
            # Files are written under temporary names, so nothing needs to be cleaned up.
            with suppress(OSError):  # the terminal may be closed
                print(f"\n{stop_reason(128 + number)} again: exiting", file=sys.stderr, flush=True)
            os._exit(128 + number)


def stop_reason(code: int) -> str:
    """The signal or config key behind an exit code."""
    return "training.time_limit" if code == EX_TEMPFAIL else signal.Signals(code - 128).name


@dataclass(frozen=True)
class Session:
    """Values that the parts of a training share in this process."""

    run: RunDirectory
    distributed: DistributedContext
    logger: MetricsLogger
    stop: StopRequest
