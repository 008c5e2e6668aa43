"""Which parameters learn, and how fast."""

from __future__ import annotations

from typing import Any

from torch import nn


def parameter_groups(model: nn.Module) -> list[dict[str, Any]]:
    """Parameter groups of an optimizer: one for each scale of the learning rate, the full rate first.

    A module that has a `lr_scale` is trained, with all in it, at that share of the learning rate; frozen
    parameters are in no group.
    """
    shares = {parameter: 1.0 for parameter in model.parameters() if parameter.requires_grad}
    for module in model.modules():
        if (share := getattr(module, "lr_scale", None)) is not None:
            shares |= {parameter: share for parameter in module.parameters() if parameter in shares}
    return [
        {"params": [parameter for parameter, own in shares.items() if own == share], "share": share}
        for share in sorted({*shares.values()}, key=lambda share: (share != 1.0, share))
    ]
