"""Guided alignment: attention trained on word alignments (Chen et al. 2016).

Shapes: B sentences, L layers, H heads, T target tokens with EOS, S source tokens with EOS.
"""

from typing import Literal

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor

from seq2attn.config.base import Config, FieldError


class GuidedAlignmentConfig(Config):
    """Guided alignment: one attention head is also trained on the word alignments of `data.train.alignment`."""

    weight: PositiveFloat = 0.1
    """Weight of the cross-entropy of the alignments, relative to that of the target tokens."""
    layer: PositiveInt | None = None
    """The guided layer, counted from 1; none: the second to last (Garg et al. 2019), or the only one."""
    head: PositiveInt | Literal["mean"] = 1
    """The guided head, counted from 1; `mean`: the mean of all heads of the layer."""

    def select_attention(self, weights: Tensor) -> Tensor:
        """The guided attention: [B, L, H, T, S] -> [B, T, S]"""
        layer = weights[:, self.resolve_layer(weights.size(1)) - 1]
        return layer.mean(1) if self.head == "mean" else layer[:, self.head - 1]

    def resolve_layer(self, layers: int) -> int:
        """The guided layer of a decoder with `layers` layers, counted from 1."""
        return self.layer or max(1, layers - 1)

    def unsupported(self, layers: int, heads: int) -> FieldError | None:
        """The error for a decoder with too few layers or heads."""
        key = "training.guided_alignment"
        if layers == 0:
            return FieldError(key, "guides attention, but the decoder has none")
        if self.resolve_layer(layers) > layers:
            return FieldError(
                f"{key}.layer", f"there is no layer {self.layer}; the decoder has {layers} with attention"
            )
        if self.head != "mean" and self.head > heads:
            return FieldError(f"{key}.head", f"there is no head {self.head}; a layer has {heads}")
        return None


def guided_alignment_loss(weights: Tensor, alignment: Tensor) -> tuple[Tensor, Tensor]:
    """weights [B, T, S], alignment [B, T, S] -> the sum of -sum_s alignment log weight, number of aligned tokens.

    Chen et al. 2016, equation 6, before division. Rows of `alignment` sum to 1, or to 0 for EOS and unaligned words. A
    weight of exactly zero (outside a window, or in a sparse alignment) counts as the smallest positive number, so the
    loss stays finite and such weights get no gradient.
    """
    weights = weights.float() if weights.dtype != torch.float64 else weights
    logs = weights.clamp_min(torch.finfo(weights.dtype).tiny).log()
    return -(alignment.to(logs.dtype) * logs).sum(), alignment.any(-1).sum()
