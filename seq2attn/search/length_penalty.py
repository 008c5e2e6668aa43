"""Limits of a translation: its length and its beginning; and scores that are comparable across lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from seq2attn.nn.decoding_state import map_tensors

FREE = -1
"""Stands in a prefix for any token."""


@dataclass(frozen=True)
class LengthLimits:
    """The fewest and the most words a sentence's translation may have, the end among them, and its prefix."""

    min_length: Tensor  # [B] long, at least 1
    max_length: Tensor  # [B] long, at least `fewest`
    prefix: Tensor | None = (
        None  # [B, P] long, the first tokens of a translation; FREE after a shorter prefix
    )

    def with_prefixes(self, prefixes: Sequence[Sequence[int]]) -> LengthLimits:
        """The same with a prefix for each sentence, and room for it and the end."""
        width = max(map(len, prefixes), default=0)
        if not width:
            return self
        prefix = torch.tensor([[*ids, *[FREE] * (width - len(ids))] for ids in prefixes])
        return LengthLimits(
            self.min_length, torch.maximum(self.max_length, (prefix != FREE).sum(1) + 1), prefix
        )

    def to(self, device: torch.device) -> LengthLimits:
        """The same on a device."""
        return map_tensors(lambda tensor: tensor.to(device), self)

    def force(self, log_probs: Tensor, t: int) -> Tensor:
        """Nothing but the prefix's token at position `t`, counted from 1, with its own log-probability: [b, K, V]"""
        if self.prefix is None or t > self.prefix.size(1):
            return log_probs
        token = self.prefix[:, t - 1, None, None]
        at = token.clamp(min=0).expand(-1, log_probs.size(1), -1)
        forced = torch.full_like(log_probs, float("-inf")).scatter(-1, at, log_probs.gather(-1, at))
        return torch.where(token == FREE, log_probs, forced)


@dataclass(frozen=True)
class LengthPenalty:
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
