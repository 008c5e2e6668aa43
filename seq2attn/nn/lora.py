"""LoRA: low-rank updates of frozen weights (Hu et al. 2022).

An update is a parametrization of PyTorch, so every kernel that reads the weight of a layer sees the sum. In a state
dict the weight `layer.weight` becomes `layer.parametrizations.weight.original`, and beside it the update.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from seq2attn.nn.precision import autocast_dtype

ORIGINAL = ".parametrizations.weight.original"


class LowRankUpdate(nn.Module):
    """W + alpha / rank * B A (Hu et al. 2022, section 4.1); B is zero at first."""

    scale: Tensor

    def __init__(self, weight: Tensor, rank: int, alpha: float) -> None:
        super().__init__()
        self.down = nn.Parameter(weight.new_empty(rank, weight.size(1)))  # A
        self.up = nn.Parameter(weight.new_zeros(weight.size(0), rank))  # B
        self.register_buffer("scale", weight.new_tensor(alpha / rank))  # in checkpoints, to merge them without a config
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

    def forward(self, weight: Tensor) -> Tensor:
        """[O, I] -> [O, I]"""
        if autocast_dtype(weight.device) is None:
            return updated_weight(weight, self.down, self.up, self.scale)
        with torch.autocast(weight.device.type, enabled=False):  # as exact as the weights that are merged later
            return updated_weight(weight, self.down, self.up, self.scale)


def updated_weight(weight: Tensor, down: Tensor, up: Tensor, scale: Tensor | float) -> Tensor:
    """A weight with its update: [O, I], [R, I], [O, R] -> [O, I]"""
    return weight + scale * (up @ down)


def add_adapter(layer: nn.Linear, rank: int, alpha: float) -> None:
    """Add an update to the weight of a layer."""
    parametrize.register_parametrization(layer, "weight", LowRankUpdate(layer.weight, rank, alpha))


def merge_adapters(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a model without adapters that equals one with them; unchanged if there are none."""
    merged: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if name.endswith(ORIGINAL):
            update = name.removesuffix("original") + "0."
            parts = (weights[update + part] for part in ("down", "up", "scale"))
            merged[name.removesuffix(ORIGINAL) + ".weight"] = updated_weight(tensor, *parts)
        elif ".parametrizations." not in name:
            merged[name] = tensor
    return merged


def remove_adapters(model: nn.Module) -> None:
    """Merge the updates of all layers of a model into their weights."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear) and parametrize.is_parametrized(layer, "weight"):
            parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)
