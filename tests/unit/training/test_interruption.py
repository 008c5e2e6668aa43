"""Signals and time limits that end a training between two updates."""

import os
import signal
import time

import pytest

from seq2attn.config.duration import Duration
from seq2attn.training.distributed import StopRequest


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_is_heard_and_its_handler_put_back(number: int) -> None:
    before = signal.getsignal(number)
    with StopRequest() as stop:
        assert stop.exit_code == 0
        os.kill(os.getpid(), number)
        assert stop.exit_code == 128 + number
    assert signal.getsignal(number) is before


def test_a_hang_up_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop.exit_code == 0
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(("minutes", "code"), [(0, 0), (1.5, 0), (2, 75)])
def test_a_time_limit_counts_in_its_unit(minutes: float, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    start, stop = time.monotonic(), StopRequest(Duration(2.0, "minutes"))
    monkeypatch.setattr(time, "monotonic", lambda: start + 60 * minutes + 1)
    assert stop.exit_code == code
