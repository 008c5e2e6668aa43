"""How long a translation may be, and how its score is made comparable across lengths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor


@dataclass(frozen=True)
class Limits:
    """The fewest and the most words a sentence's translation may have, the end among them."""

    fewest: Tensor  # [B] long, at least 1
    most: Tensor  # [B] long, at least `fewest`


@dataclass(frozen=True)
class LengthRule:
    """Turns the log-probability of a hypothesis into its score.

    none: as it is; average: divided by length ** alpha; gnmt: divided by ((5 + length) / 6) ** alpha (Wu et al. 2016,
    eq. 14).
    """

    kind: Literal["none", "average", "gnmt"] = "none"
    alpha: float = 1.0

    def penalty(self, length: Tensor) -> Tensor:
        """What a log-probability is divided by, for lengths [...] that count the end; it grows with the length."""
        length = length.to(torch.float32)
        if self.kind == "average":
            return length**self.alpha
        return ((5.0 + length) / 6.0) ** self.alpha if self.kind == "gnmt" else torch.ones_like(length)
