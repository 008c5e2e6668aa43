"""Data-parallel training in several processes, started by torchrun; a single process is a group of one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from seq2attn.errors import UserError
from seq2attn.nn.device import resolve_device

HOST_TIMEOUT = timedelta(days=1)
"""Longest wait of one process for what another does alone, such as the preparation of a large corpus."""


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

    Raises: UserError if there is no such device, or if several processes would share it.
    """
    device = resolve_device(name)
    if device.type == "cpu":
        return device
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        if device.index is not None:
            raise UserError(f"`{name}` would be shared by several processes; with `cuda` each uses another device")
        return resolve_device(f"cuda:{os.environ.get('LOCAL_RANK', 0)}")
    return torch.device("cuda", device.index or 0)


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
