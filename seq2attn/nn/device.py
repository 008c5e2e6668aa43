"""Devices by name, settings of PyTorch's CUDA backends, and out-of-memory errors."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch

from seq2attn.errors import UserError


def configure_cuda(device: torch.device, *, tf32: bool) -> None:
    """Set PyTorch's options for a CUDA device; for other devices there are none.

    `tf32`: round the factors of float32 products to 10 bits, also in RNNs and convolutions. PyTorch's default is to do
    so in cuDNN alone, that is, in a part of a model.

    Sums of bfloat16 products stay in float32. cuDNN's attention is disabled, as it builds a plan for each new shape of
    a batch or a cache, which takes longer than the batch (pytorch/pytorch#154602).
    """
    if device.type != "cuda":
        return
    # The old names: after a newer one was set, reading an old one raises an error (pytorch/pytorch#166387).
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.enable_cudnn_sdp(False)


def resolve_device(name: str) -> torch.device:
    """The device of that name; `auto` is a CUDA device if there is one.

    Raises UserError when there is no such device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device).cpu()  # not of `meta`, which has no values
    except (RuntimeError, AssertionError, NotImplementedError):
        gpus = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
        known = ", ".join(["auto", "cpu", *gpus])
        raise UserError(f"there is no device `{name}` here; known: {known}") from None
    return device


OOM_MESSAGES = (
    "out of memory",
    "allocate memory",
    "not enough memory",
    "bad_alloc",
    "alloc_failed",
    "allocation_failed",
    "when calling `cublascreate",
)
"""Parts of messages that have no exception type: of engines, PyTorch on a CPU, C++, cuDNN and cuBLAS (its handle)."""


def is_oom_error(error: Exception) -> bool:
    """True if the error was caused by too little memory."""
    message = str(error).lower()
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(part in message for part in OOM_MESSAGES)


@contextmanager
def deterministic(enabled: bool) -> Iterator[None]:
    """Context with deterministic kernels only. On a CPU all kernels are deterministic.

    Raises UserError if a layer has no such kernel.
    """
    if not enabled or not torch.cuda.is_available():
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # see `torch.use_deterministic_algorithms`
    cudnn, memory = torch.backends.cudnn, cast("Any", torch.utils.deterministic)
    before = cudnn.deterministic, cudnn.benchmark, memory.fill_uninitialized_memory
    algorithms = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    # Filling is for memory that is read before it is written, and costs a kernel at each allocation.
    cudnn.deterministic, cudnn.benchmark, memory.fill_uninitialized_memory = True, False, False
    try:
        yield
    except RuntimeError as error:
        if "deterministic" not in str(error):
            raise
        if "CUBLAS_WORKSPACE_CONFIG" in str(error):  # which PyTorch reads at its first product
            fix = "set CUBLAS_WORKSPACE_CONFIG=:4096:8 before Python starts"
            raise UserError(f"`training.deterministic`: this process has used the GPU already; {fix}") from None
        raise UserError(
            f"`training.deterministic`: a layer has no deterministic kernel on this GPU ({error})"
        ) from None
    finally:
        torch.use_deterministic_algorithms(algorithms)
        cudnn.deterministic, cudnn.benchmark, memory.fill_uninitialized_memory = before
