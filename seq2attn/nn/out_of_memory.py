"""Out-of-memory errors, of any device and library."""

from __future__ import annotations

import torch

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
