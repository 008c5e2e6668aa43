"""Precision of products: autocast, and whether gradients are recorded."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


def is_grad_recording() -> bool:
    """True if gradients are recorded, by autograd and not by the compiler, which needs the plain formula."""
    return torch.is_grad_enabled() and not torch.compiler.is_compiling()


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """Autocast to bfloat16 for `training.precision: bfloat16`, and for `auto` on a GPU that supports it."""
    if precision == "auto":
        enabled = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        enabled = precision == "bfloat16"
    return torch.autocast(device.type, dtype=torch.bfloat16) if enabled else nullcontext()


def has_bfloat16_products() -> bool:
    """True if the processor has instructions for products of bfloat16, which are faster than those of float32."""
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name, False) for name in ("amx_bf16", "avx512_bf16"))


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """Dtype of products within autocast; None outside it, and on the meta device, which has none."""
    kind = device.type
    return torch.get_autocast_dtype(kind) if kind != "meta" and torch.is_autocast_enabled(kind) else None
