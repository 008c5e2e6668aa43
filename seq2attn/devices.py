"""Devices by name."""

from __future__ import annotations

import torch

from seq2attn.errors import UserError


def chosen_device(name: str) -> torch.device:
    """The device of that name; `auto` is a CUDA device where there is one.

    Raises UserError when there is no such device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        cards = [f"cuda:{card}" for card in range(torch.cuda.device_count())]
        known = ", ".join(["auto", "cpu", *cards])
        raise UserError(f"there is no device `{name}` here; known: {known}") from None
    return device
