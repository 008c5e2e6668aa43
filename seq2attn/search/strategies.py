"""How each sentence's hypotheses go on: greedily, as a beam, or by chance.

Shapes: B sentences, K hypotheses a sentence, V words, C >= K candidates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

NEG_INF = float("-inf")


class SearchStrategy(Protocol):
    """Picks candidates among all continuations of a sentence's hypotheses."""

    @property
    def beam_size(self) -> int:
        """K, how many hypotheses a sentence keeps."""
        ...

    @property
    def max_finished(self) -> float:
        """How many finished hypotheses end the search for a sentence, though there might be a better one."""
        ...

    def initial_scores(self, scores: Tensor) -> Tensor:
        """What the K equal hypotheses are worth before the first word: [B, K] zeros in, [B, K] out."""
        ...

    def __call__(self, log_probs: Tensor, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """log_probs [B, K, V], scores [B, K] -> parent, token, score, each [B, C]"""
        ...


@dataclass(frozen=True)
class GreedySearch:
    """The likeliest word. Not a beam of one: a beam may take back an early end, and finishes second-best words too."""

    beam_size: int = 1
    max_finished: float = math.inf

    def initial_scores(self, scores: Tensor) -> Tensor:
        """[B, 1]"""
        return scores

    def __call__(self, log_probs: Tensor, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """log_probs [B, 1, V], scores [B, 1] -> parent, token, score, each [B, 1]"""
        return topk_continuations(log_probs, scores, 1)


@dataclass(frozen=True)
class BeamSearch:
    """The likeliest continuations of all K hypotheses together: 2K, enough should K of them end."""

    beam_size: int = 5
    patience: float | None = None

    @property
    def max_finished(self) -> float:
        """So many times the width; without `patience` as many as it takes (Kasai et al. 2022, section 3)."""
        return math.inf if self.patience is None else self.beam_size * self.patience

    def initial_scores(self, scores: Tensor) -> Tensor:
        """Only the first of K equal hypotheses counts, lest the beam fill with copies."""
        return torch.full_like(scores, NEG_INF).index_fill(1, scores.new_zeros(1, dtype=torch.long), 0.0)

    def __call__(self, log_probs: Tensor, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """log_probs [B, K, V], scores [B, K] -> parent, token, score, each [B, 2K], best first"""
        return topk_continuations(log_probs, scores, 2 * self.beam_size)


@dataclass(frozen=True)
class Sampling:
    """K independent draws; from the `top_k` likeliest words, or the fewest that hold `top_p` of the probability."""

    beam_size: int = 1
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    generator: torch.Generator | None = None
    max_finished: float = math.inf

    def initial_scores(self, scores: Tensor) -> Tensor:
        """[B, K], all alike"""
        return scores

    def __call__(self, log_probs: Tensor, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """log_probs [B, K, V], scores [B, K] -> parent, token, score, each [B, K]"""
        probs = (self._cut(log_probs) / self.temperature).softmax(-1)
        token = torch.multinomial(probs.flatten(0, 1), 1, generator=self.generator).view(scores.shape)
        parent = torch.arange(self.beam_size, device=scores.device).expand_as(token)
        return parent, token, scores + log_probs.gather(-1, token.unsqueeze(-1)).squeeze(-1)

    def _cut(self, log_probs: Tensor) -> Tensor:
        """Words outside the allowed ones become impossible: [B, K, V] -> [B, K, V]"""
        if self.top_k is not None and self.top_k < log_probs.size(-1):
            least = log_probs.topk(self.top_k, -1).values[..., -1:]
            log_probs = log_probs.masked_fill(log_probs < least, NEG_INF)
        if self.top_p < 1.0:
            ordered, index = log_probs.sort(-1, descending=True)
            likelier = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)  # what stands before each word
            cut = ordered.masked_fill(likelier >= self.top_p, NEG_INF)
            log_probs = torch.full_like(log_probs, NEG_INF).scatter(-1, index, cut)
        return log_probs


BLOCK_SIZE = 64
"""How many words are compared by their best one first."""


def topk_continuations(log_probs: Tensor, scores: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """log_probs [B, K, V], scores [B, K] -> parent, word, score, each [B, count] or fewer, best first

    The best `count` words stand in the `count` blocks of words whose best ones are best, so that only these are looked
    at: each other block has as many words before its own best one.
    """
    sentences, width, words = log_probs.shape
    blocks = words // BLOCK_SIZE
    if width * blocks <= 2 * count:
        score, index = (scores.unsqueeze(-1) + log_probs).flatten(1).topk(min(count, width * words))
        return index // words, index % words, score
    table = log_probs[..., : blocks * BLOCK_SIZE].unflatten(-1, (blocks, BLOCK_SIZE))
    best = (table.amax(-1) + scores.unsqueeze(-1)).flatten(1).topk(count).indices
    parent, block = best // blocks, best % blocks
    sentence = torch.arange(sentences, device=best.device).unsqueeze(1)
    total = (table[sentence, parent, block] + scores.gather(1, parent).unsqueeze(-1)).flatten(1)
    word = (block.unsqueeze(-1) * BLOCK_SIZE + torch.arange(BLOCK_SIZE, device=best.device)).flatten(1)
    parent = parent.repeat_interleave(BLOCK_SIZE, 1)
    rest = words - blocks * BLOCK_SIZE
    if rest:
        last = log_probs[..., blocks * BLOCK_SIZE :] + scores.unsqueeze(-1)
        number = torch.arange(width * rest, device=best.device)
        total = torch.cat([total, last.flatten(1)], 1)
        word = torch.cat([word, (blocks * BLOCK_SIZE + number % rest).expand(sentences, -1)], 1)
        parent = torch.cat([parent, (number // rest).expand(sentences, -1)], 1)
    score, index = total.topk(count)
    return parent.gather(1, index), word.gather(1, index), score
