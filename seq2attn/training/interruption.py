"""Ending a session between two updates: by SIGTERM, SIGHUP, Ctrl-C, or when its time is over."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Self

from seq2attn.config.duration import Duration

HANGUP = [signal.SIGHUP] if hasattr(signal, "SIGHUP") else []
"""None on Windows."""
SIGNALS = (signal.SIGTERM, signal.SIGINT, *HANGUP)
TIME_LIMIT_KEY = "training.time_limit"
EX_TEMPFAIL = 75
"""The exit code of a training whose time is over: `EX_TEMPFAIL` of sysexits.h, so that a queue can start it anew."""
REPEAT_WINDOW = 1.0
"""Seconds within which a second signal is the first: `timeout` and batch queues send it to process and group."""


class StopRequest:
    """A request to end this session, if there is one. Within its `with` signals are recorded; the second one exits."""

    def __init__(self, time_limit: Duration | None = None, started: float | None = None) -> None:
        begin = time.monotonic() if started is None else started
        self._deadline = None if time_limit is None else begin + time_limit.seconds
        self._signal: int | None = None
        self._heard = 0.0
        self._before: dict[int, Any] = {}

    @property
    def exit_code(self) -> int:
        """The exit code for the reason; 0 where there is no request."""
        if self._signal is not None:
            return 128 + self._signal
        return EX_TEMPFAIL if self._deadline is not None and time.monotonic() >= self._deadline else 0

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # the only one that may
            ignored = [n for n in HANGUP if signal.getsignal(n) is signal.SIG_IGN]  # as under nohup
            heard = [number for number in SIGNALS if number not in ignored]
            self._before = {number: signal.signal(number, self._hear) for number in heard}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._signal is None:
            self._signal, self._heard = number, now
        elif now - self._heard > REPEAT_WINDOW:
            # What is being written has a name of its own until it is whole, so there is nothing to tidy.
            with suppress(OSError):  # the terminal may have gone
                print(f"\n{stop_reason(128 + number)} again: gone", file=sys.stderr, flush=True)
            os._exit(128 + number)


def stop_reason(code: int) -> str:
    """Why a training ends with this exit code."""
    return TIME_LIMIT_KEY if code == EX_TEMPFAIL else signal.Signals(code - 128).name
