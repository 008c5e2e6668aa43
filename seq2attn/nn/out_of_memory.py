"""Running out of memory: an error that work can go on after, with less at once."""

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
"""How the errors of missing memory read that have no type of their own: of engines, PyTorch on a CPU, C++, cuDNN
and cuBLAS, which has none for its handle."""


def is_oom_error(error: Exception) -> bool:
    """Whether there was too little memory, on whatever device."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    said = str(error).lower()
    return any(sign in said for sign in OOM_MESSAGES)
