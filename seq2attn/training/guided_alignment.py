"""Guided alignment: attention is shown where to look by word alignments (Chen et al. 2016).

Shapes: B sentences, L layers, H heads, T target tokens with the end, S source tokens with the end.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor

from seq2attn.config.base import Config


class GuidedAlignmentConfig(Config):
    """Guided alignment: one attention learns the links of `data.train.alignment` beside the translation."""

    weight: PositiveFloat = 0.1
    """Weight of the cross-entropy of the links beside that of the target tokens."""
    layer: PositiveInt | None = None
    """The layer that is guided, from 1, the lowest; none: the last but one (Garg et al. 2019), or the only one."""
    head: PositiveInt | Literal["mean"] = 1
    """The head that is guided, from 1; `mean`: the mean of all heads of the layer."""

    def select_attention(self, weights: Tensor) -> Tensor:
        """The weights that are guided: [B, L, H, T, S] -> [B, T, S]"""
        layer = weights[:, self.resolve_layer(weights.size(1)) - 1]
        return layer.mean(1) if self.head == "mean" else layer[:, self.head - 1]

    def resolve_layer(self, layers: int) -> int:
        """The layer that is guided in a decoder of so many, from 1."""
        return self.layer or max(1, layers - 1)

    def unsupported_reason(self, layers: int, heads: int) -> tuple[str, str] | None:
        """The key that asks for what a decoder of so many layers and heads lacks, and what is wrong with it."""
        if layers == 0:
            return "", "guides attention, of which the decoder has none"
        if self.resolve_layer(layers) > layers:
            return "layer", f"there is no layer {self.layer}; the decoder has {layers} with attention"
        if self.head != "mean" and self.head > heads:
            return "head", f"there is no head {self.head}; a layer has {heads}"
        return None


def guided_alignment_loss(weights: Tensor, guide: Tensor) -> tuple[Tensor, Tensor]:
    """weights [B, T, S], guide [B, T, S] -> the sum of -sum_s guide log weight, and how many tokens have a guide.

    This is Chen et al. 2016, equation 6, before it is divided: guide rows are shares, or zeros where nothing is known,
    as of the end and of words without a link. A weight of exactly zero, outside of a window or cut off by a sparse
    alignment, counts as the smallest number there is: the loss stays finite, and no gradient asks for what cannot be.
    """
    weights = weights.float() if weights.dtype != torch.float64 else weights
    logs = weights.clamp_min(torch.finfo(weights.dtype).tiny).log()
    return -(guide.to(logs.dtype) * logs).sum(), guide.any(-1).sum()
