"""Devices by name, and the settings of PyTorch's CUDA backends."""

from __future__ import annotations

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
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        gpus = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
        known = ", ".join(["auto", "cpu", *gpus])
        raise UserError(f"there is no device `{name}` here; known: {known}") from None
    return device
