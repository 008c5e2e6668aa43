"""Signals that end a training between two updates."""

import os
import signal

import pytest

from seq2attn.training.interruption import StopRequest


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
