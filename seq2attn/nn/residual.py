"""Residual connections with a norm before or after them."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from seq2attn.nn.dropout import Dropout


class ResidualConnection(nn.Module):
    """x + f(x) with dropout and a norm: before f (pre-norm) or after the sum (post-norm).

    Vaswani et al. 2017, section 5.4, is post-norm; Xiong et al. 2020 compare both.
    """

    def __init__(self, norm: nn.Module, dropout: float, place: Literal["pre", "post"]) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.pre_norm = place == "pre"

    def sublayer_input(self, x: Tensor) -> Tensor:
        """What f is given: [B, T, D] -> [B, T, D]"""
        entered: Tensor = self.norm(x) if self.pre_norm else x
        return entered

    def add_output(self, x: Tensor, fx: Tensor) -> Tensor:
        """x and f(enter(x)) to the layer's output, all [B, T, D]"""
        total = x + self.dropout(fx)
        return total if self.pre_norm else self.norm(total)
