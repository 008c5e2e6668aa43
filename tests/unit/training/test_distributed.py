"""Processes of a training: they wait for each other, resume with their own sums, and end by signals and time limits."""

import os
import signal
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from seq2attn.config.duration import Duration
from seq2attn.training.distributed import DistributedContext, StopRequest, init_distributed
from seq2attn.training.train_state import restore_metrics, zero_metrics


@pytest.fixture
def calls(monkeypatch):
    """Calls of torch.distributed in the second of two processes, none of which is made."""
    calls = []

    def record(name, result=None):
        monkeypatch.setattr(dist, name, lambda *args, **options: calls.append((name, args, options)) or result)

    for name in ("init_process_group", "all_reduce", "all_gather_object", "barrier", "destroy_process_group"):
        record(name)
    record("new_group", "hosts")
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    return calls


@pytest.mark.parametrize("device", [torch.device("cpu"), torch.device("cuda", 1)], ids=str)
def test_processes_wait_for_each_other_on_the_cpu(calls, device):
    with init_distributed(device) as world:
        is_cuda = device.type == "cuda"
        _, (backend,), options = calls[0]
        assert backend == ("nccl" if is_cuda else "gloo")
        assert options == {"device_id": device if is_cuda else None}
        assert calls[1][2]["backend"] == "gloo" and calls[1][2]["timeout"] >= timedelta(hours=12)
        assert world.all_reduce_sum(1.5, 2.0) == [1.5, 2.0]
        world.all_gather("value")
        world.barrier()
        assert [options for *_, options in calls[2:]] == [{"group": "hosts"}] * 3
        assert calls[2][1][0].device.type == "cpu"
    assert calls[-1][0] == "destroy_process_group"


def test_each_process_resumes_with_its_own_sums():
    device = torch.device("cpu")
    states = [zero_metrics(device).state_dict() | {"seconds": seconds} for seconds in (1.0, 2.0)]
    assert [restore_metrics(states, DistributedContext(rank, 2, device)).seconds for rank in (0, 1)] == [1.0, 2.0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_is_heard_and_its_handler_put_back(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    """What will happen is printed at once, by the first process."""
    before = signal.getsignal(number)
    with StopRequest() as stop:
        assert stop.exit_code == 0
        os.kill(os.getpid(), number)
        assert stop.exit_code == 128 + number
        name = signal.Signals(number).name
        said = (
            f"\n{name}: training ends after this update or validation, with a checkpoint; again: at once, without one\n"
        )
        assert capsys.readouterr().err == said
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
