"""The processes that train together, started by torchrun; one process is a group of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from seq2attn.errors import UserError
from seq2attn.nn.device import resolve_device


@dataclass(frozen=True)
class DistributedContext:
    """This process among all of them."""

    rank: int
    size: int
    device: torch.device

    @property
    def is_main_process(self) -> bool:
        """Whether this process writes files and reports."""
        return self.rank == 0

    def wrap_ddp(self, module: nn.Module) -> nn.Module:
        """The module, its gradients averaged over all processes where there are several."""
        if self.size == 1:
            return module
        devices = [self.device] if self.device.type == "cuda" else None
        # No buffer of ours ever changes; to send them would be one exchange more, which one that begins an update anew
        # would make twice.
        return DistributedDataParallel(module, device_ids=devices, broadcast_buffers=False)

    def no_sync(self, module: nn.Module) -> AbstractContextManager[Any]:
        """Within it gradients stay here: for all but the last batch of an update."""
        return module.no_sync() if isinstance(module, DistributedDataParallel) else nullcontext()

    def all_reduce_sum(self, *numbers: float) -> list[float]:
        """Each number added up over all processes."""
        if self.size == 1:
            return list(numbers)
        total = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return [float(number) for number in total.tolist()]

    def all_reduce_(self, tensor: Tensor) -> Tensor:
        """A tensor added up over all processes, in its place; nobody waits for the device."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def all_gather(self, mine: Any) -> list[Any]:
        """What every process has, in the order of their ranks."""
        if self.size == 1:
            return [mine]
        everyone: list[Any] = [None] * self.size
        dist.all_gather_object(everyone, mine)
        return everyone

    def synchronize(self) -> None:
        """Wait until the device has finished: its kernels run asynchronously."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def barrier(self) -> None:
        """Until all processes are here."""
        if self.size > 1:
            dist.barrier()


def training_device(name: str) -> torch.device:
    """The device of this process for a `training.device` of that name: under torchrun one CUDA device a process.

    Raises: UserError when there is no such device, or when several processes would share a CUDA device.
    """
    device = resolve_device(name)
    if device.type == "cpu":
        return device
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        if device.index is not None:
            raise UserError(f"`{name}` would be shared by several processes; `cuda` gives each its own")
        return resolve_device(f"cuda:{os.environ.get('LOCAL_RANK', 0)}")
    return torch.device("cuda", device.index or 0)


@contextmanager
def init_distributed(device: torch.device) -> Iterator[DistributedContext]:
    """The world that torchrun's environment tells of (gloo on CPU, NCCL on CUDA), or one of this process alone."""
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if size == 1:
        yield DistributedContext(0, 1, device)
        return
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield DistributedContext(rank, size, device)
    finally:
        dist.destroy_process_group()
