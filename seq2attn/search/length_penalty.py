"""Length limits, forced prefix and phrases of translations, and the length penalty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from seq2attn.nn.decoding_state import map_tensors

FREE = -1
"""Placeholder for any token in a prefix, and after the end of a phrase."""


@dataclass(frozen=True)
class LengthLimits:
    """Minimum and maximum length of each translation, including EOS, its prefix and phrases."""

    min_length: Tensor  # [B] long, at least 1
    max_length: Tensor  # [B] long, at least `min_length`
    prefix: Tensor | None = None  # [B, P] long, the first tokens; FREE after a shorter prefix
    phrases: Tensor | None = None  # [B, C, M] long, tokens that it contains; FREE after a shorter phrase

    def with_prefixes(self, prefixes: Sequence[Sequence[int]]) -> LengthLimits:
        """The same with a prefix for each sentence, and a maximum length of at least the prefix and EOS."""
        width = max(map(len, prefixes), default=0)
        if not width:
            return self
        prefix = torch.tensor([[*ids, *[FREE] * (width - len(ids))] for ids in prefixes])
        return LengthLimits(self.min_length, torch.maximum(self.max_length, (prefix != FREE).sum(1) + 1), prefix)

    def with_phrases(self, phrases: Sequence[Sequence[Sequence[int]]]) -> LengthLimits:
        """The same with phrases for each sentence, and a maximum length of at least prefix, phrases and EOS."""
        width, longest = max(map(len, phrases)), max((len(ids) for row in phrases for ids in row), default=0)
        if not width:
            return self
        padded = torch.full((len(phrases), width, longest), FREE)
        for row, sentence in enumerate(phrases):
            for number, ids in enumerate(sentence):
                padded[row, number, : len(ids)] = torch.tensor(ids)
        count = (padded != FREE).sum((1, 2)) + (0 if self.prefix is None else (self.prefix != FREE).sum(1))
        return replace(self, max_length=torch.maximum(self.max_length, count + 1), phrases=padded)

    def to(self, device: torch.device) -> LengthLimits:
        """The same on a device."""
        return map_tensors(lambda tensor: tensor.to(device), self)

    def force(self, log_probs: Tensor, t: int) -> Tensor:
        """Log-probabilities [b, K, V] of step `t`, from 1, with -inf for all but the token of the prefix."""
        if self.prefix is None or t > self.prefix.size(1):
            return log_probs
        token = self.prefix[:, t - 1, None, None]
        at = token.clamp(min=0).expand(-1, log_probs.size(1), -1)
        forced = torch.full_like(log_probs, float("-inf")).scatter(-1, at, log_probs.gather(-1, at))
        return torch.where(token == FREE, log_probs, forced)


@dataclass(frozen=True)
class LengthPenalty:
    """Length penalty: log-probability to score.

    none: unchanged; average: divided by length ** alpha; gnmt: divided by ((5 + length) / 6) ** alpha (Wu et al. 2016,
    eq. 14).
    """

    kind: Literal["none", "average", "gnmt"] = "none"
    alpha: float = 1.0

    def penalty(self, length: Tensor) -> Tensor:
        """Divisor of the log-probability for lengths [...] that include EOS; never smaller for a longer one."""
        length = length.to(torch.float32)
        if self.kind == "average":
            return length**self.alpha
        return ((5.0 + length) / 6.0) ** self.alpha if self.kind == "gnmt" else torch.ones_like(length)
