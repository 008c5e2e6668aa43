"""Processes of a training: data-parallel ones of torchrun, or a group of one, and requests to end them."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from seq2attn.config.base import FieldError
from seq2attn.config.duration import Duration
from seq2attn.errors import UserError
from seq2attn.nn.device import resolve_device

HOST_TIMEOUT = timedelta(days=1)
"""Longest wait of one process for what another does alone, such as the preparation of a large corpus."""
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
EX_TEMPFAIL = 75
"""Exit code at the time limit, from sysexits.h: a batch queue can start the command again."""
REPEAT_WINDOW = 1.0
"""Seconds in which a second signal counts as the first: `timeout` and batch queues signal both process and group."""


@dataclass(frozen=True)
class DistributedContext:
    """This process, and the number of processes."""

    rank: int
    size: int
    device: torch.device
    host_group: dist.ProcessGroup | None = None  # for values on the CPU: no GPU is waited for

    @property
    def is_main_process(self) -> bool:
        """True for the process that writes files and logs."""
        return self.rank == 0

    def wrap_ddp(self, module: nn.Module) -> nn.Module:
        """The module, with its gradients averaged over all processes."""
        if self.size == 1:
            return module
        devices = [self.device] if self.device.type == "cuda" else None
        # Buffers never change. Broadcasting them would be a second exchange when an update is repeated.
        return DistributedDataParallel(
            module, device_ids=devices, broadcast_buffers=False, gradient_as_bucket_view=True
        )

    def exchange(self, module: nn.Module, is_last: bool) -> AbstractContextManager[Any]:
        """Context of forward and backward, which exchange gradients only in the last micro-batch of an update."""
        if is_last or not isinstance(module, DistributedDataParallel):
            return nullcontext()
        return module.no_sync()

    def all_reduce_sum(self, *numbers: float) -> list[float]:
        """The sum of each number over all processes."""
        if self.size == 1:
            return list(numbers)
        total = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(total, group=self.host_group)
        return [float(number) for number in total.tolist()]

    def all_reduce_(self, tensor: Tensor) -> Tensor:
        """The sum of a tensor over all processes, in place and without synchronizing with the device."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def all_gather(self, value: Any) -> list[Any]:
        """The values of all processes, by rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value, group=self.host_group)
        return values

    def check_same(self, values: Mapping[str, object]) -> None:
        """Compare values of all processes, such as options by their keys. Raises UserError that names what differs."""
        first, *others = self.all_gather(dict(values))
        for rank, other in enumerate(others, start=1):
            lines = [
                f"  {key} is {first.get(key)} in process 0, and {other.get(key)} in process {rank}"
                for key in dict.fromkeys([*first, *other])
                if first.get(key) != other.get(key)
            ]
            if lines:
                advice = "give all processes the same config, text and versions"
                raise UserError(f"the processes of this training differ; {advice}:\n" + "\n".join(lines))

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.size > 1:
            dist.barrier(group=self.host_group)


def training_device(name: str) -> torch.device:
    """The device of this process for `training.device`: under torchrun one CUDA device per process.

    Raises FieldError if there is no such device, or if several processes would share it.
    """
    try:
        device = resolve_device(name)
        if device.type == "cpu":
            return device
        if int(os.environ.get("WORLD_SIZE", 1)) == 1:
            return torch.device("cuda", device.index or 0)
        if device.index is not None:
            raise UserError(f"`{name}` would be shared by several processes; with `cuda` each uses another device")
        return resolve_device(f"cuda:{os.environ.get('LOCAL_RANK', 0)}")
    except UserError as error:
        raise FieldError("training.device", str(error)) from None


@contextmanager
def init_distributed(device: torch.device) -> Iterator[DistributedContext]:
    """The process group of torchrun's environment (gloo on CPU, NCCL on CUDA), or a group of one."""
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if size == 1:
        yield DistributedContext(0, 1, device)
        return
    is_cuda = device.type == "cuda"
    dist.init_process_group("nccl" if is_cuda else "gloo", device_id=device if is_cuda else None)
    try:
        # NCCL would end a process that waits for ten minutes, and what is on the CPU would wait for the GPU.
        yield DistributedContext(rank, size, device, dist.new_group(backend="gloo", timeout=HOST_TIMEOUT))
    finally:
        dist.destroy_process_group()


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
            self._signal = number
            self._signal_time = now
            end = "training ends after this update or validation, with a checkpoint; again: at once, without one"
            _print_at_once(f"{stop_reason(128 + number)}: {end}")
        elif now - self._signal_time > REPEAT_WINDOW:
            # Files are written under temporary names, so nothing needs to be cleaned up.
            _print_at_once(f"{stop_reason(128 + number)} again: exiting")
            os._exit(128 + number)


def _print_at_once(message: str) -> None:
    """Print a message of the first process, unless the terminal is closed, or the interrupted code is printing."""
    if os.environ.get("RANK", "0") == "0":
        with suppress(OSError, RuntimeError):
            print(f"\n{message}", file=sys.stderr, flush=True)


def stop_reason(code: int) -> str:
    """The signal or config key behind an exit code."""
    return "training.time_limit" if code == EX_TEMPFAIL else signal.Signals(code - 128).name
