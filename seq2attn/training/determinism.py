"""Deterministic kernels on a GPU, as on a CPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch

from seq2attn.errors import UserError

CUBLAS_WORKSPACE_VARIABLE = "CUBLAS_WORKSPACE_CONFIG"
"""Environment of cuBLAS, to be set before its first use (see `torch.use_deterministic_algorithms`)."""


@contextmanager
def deterministic(wanted: bool) -> Iterator[None]:
    """Within it PyTorch takes only kernels that add up in the same order each time; a CPU's all do.

    Raises: UserError when a layer has no such kernel.
    """
    if not wanted or not torch.cuda.is_available():
        yield
        return
    os.environ.setdefault(CUBLAS_WORKSPACE_VARIABLE, ":4096:8")
    cudnn, memory = torch.backends.cudnn, cast("Any", torch.utils.deterministic)
    before = torch.are_deterministic_algorithms_enabled(), cudnn.deterministic, cudnn.benchmark
    was_filled = memory.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    memory.fill_uninitialized_memory = False  # with NaN at each allocation; nothing here is read before it is written
    cudnn.deterministic, cudnn.benchmark = True, False
    try:
        yield
    except RuntimeError as error:
        if "deterministic" not in str(error):
            raise
        raise UserError(
            f"`training.deterministic`: a part of the model has no deterministic kernel on this GPU ({error})"
        ) from None
    finally:
        torch.use_deterministic_algorithms(before[0])
        cudnn.deterministic, cudnn.benchmark = before[1:]
        memory.fill_uninitialized_memory = was_filled
