"""Devices by name, and the settings of PyTorch's CUDA backends."""

from __future__ import annotations

import torch

from seq2attn.errors import UserError


def configure_cuda(device: torch.device, *, tf32: bool) -> None:
    """Settings for the work on a device of CUDA; others need none.

    `tf32`: products of float32, those of RNNs and convolutions too, round their factors to 10 bits. By default PyTorch
    does so in cuDNN alone: half of a model would be exact.

    Sums of bfloat16 products stay in float32. cuDNN's attention is not used, as it builds a plan for each new shape of
    a batch or a cache, which takes longer than the batch (pytorch/pytorch#154602).
    """
    if device.type != "cuda":
        return
    # The older names: once the newer ones are used, a read of an older one is an error (pytorch/pytorch#166387).
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.enable_cudnn_sdp(False)


def resolve_device(name: str) -> torch.device:
    """The device of that name; `auto` is a CUDA device where there is one.

    Raises UserError when there is no such device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        gpus = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
        known = ", ".join(["auto", "cpu", *gpus])
        raise UserError(f"there is no device `{name}` here; known: {known}") from None
    return device
