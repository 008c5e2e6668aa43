"""Residual connections with a norm before or after them."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from seq2attn.nn.dropout import Dropout


class Residual(nn.Module):
    """x + f(x) with dropout and a norm: before f (pre-norm) or after the sum (post-norm).

    Vaswani et al. 2017, section 5.4, is post-norm; Xiong et al. 2020 compare both.
    """

    def __init__(self, norm: nn.Module, dropout: float, place: Literal["pre", "post"]) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.first = place == "pre"

    def enter(self, x: Tensor) -> Tensor:
        """What f is given: [B, T, D] -> [B, T, D]"""
        entered: Tensor = self.norm(x) if self.first else x
        return entered

    def leave(self, x: Tensor, fx: Tensor) -> Tensor:
        """x and f(enter(x)) to the layer's output, all [B, T, D]"""
        total = x + self.dropout(fx)
        return total if self.first else self.norm(total)
