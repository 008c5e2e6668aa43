"""Deterministic kernels on a GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch

from seq2attn.errors import UserError


@contextmanager
def deterministic(enabled: bool) -> Iterator[None]:
    """Context with deterministic kernels only. On a CPU all kernels are deterministic.

    Raises: UserError if a layer has no such kernel.
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
        raise UserError(
            f"`training.deterministic`: a layer has no deterministic kernel on this GPU ({error})"
        ) from None
    finally:
        torch.use_deterministic_algorithms(algorithms)
        cudnn.deterministic, cudnn.benchmark, memory.fill_uninitialized_memory = before
