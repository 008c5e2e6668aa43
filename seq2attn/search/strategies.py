"""Search strategies: the selection of candidates in greedy search, beam search and sampling.

Shapes: B sentences, K hypotheses per sentence, V vocabulary, C >= K candidates.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

NEG_INF = float("-inf")

Candidates = tuple[Tensor, Tensor, Tensor]
"""Parent, token and log-probability of each candidate, [B, C]."""


@dataclass(frozen=True)
class SearchStrategy(ABC):
    """Selection of candidates among all continuations of the hypotheses of a sentence."""

    beam_size: int = 1  # K: number of hypotheses per sentence
    groups = 1
    """Rows of the search for each sentence, next to each other; each has `beam_size` hypotheses."""

    @property
    def max_finished(self) -> float:
        """Number of finished hypotheses that end the search for a sentence."""
        return math.inf

    def initial_scores(self, scores: Tensor) -> Tensor:
        """Scores of the K equal hypotheses before the first token: zeros [B, K] -> [B, K]"""
        return scores

    @abstractmethod
    def __call__(self, log_probs: Tensor, scores: Tensor, eos: int) -> Candidates:
        """log_probs [B, K, V], scores [B, K] -> parent, token, score, each [B, C]"""


class GreedySearch(SearchStrategy):
    """The most likely token at each step. A beam of one differs: it also considers second-best tokens that end."""

    def __call__(self, log_probs: Tensor, scores: Tensor, eos: int) -> Candidates:
        """log_probs [B, 1, V], scores [B, 1] -> parent, token, score, each [B, 1]"""
        return topk_continuations(log_probs, scores, 1)


@dataclass(frozen=True)
class BeamSearch(SearchStrategy):
    """The 2K most likely continuations of all K hypotheses, enough if K of them end."""

    beam_size: int = 5
    patience: float | None = None

    @property
    def max_finished(self) -> float:
        """`patience` times the beam size; unlimited without it (Kasai et al. 2022, section 3)."""
        return math.inf if self.patience is None else self.beam_size * self.patience

    def initial_scores(self, scores: Tensor) -> Tensor:
        """-inf for all but the first of the K equal hypotheses, so that the beam does not fill with copies."""
        return torch.full_like(scores, NEG_INF).index_fill(1, scores.new_zeros(1, dtype=torch.long), 0.0)

    def __call__(self, log_probs: Tensor, scores: Tensor, eos: int) -> Candidates:
        """log_probs [B, K, V], scores [B, K] -> parent, token, score, each [B, 2K], best first"""
        return topk_continuations(log_probs, scores, 2 * self.beam_size)


@dataclass(frozen=True)
class DiverseBeamSearch(BeamSearch):
    """A beam search for each of G groups, with a penalty for the tokens of earlier groups (Vijayakumar et al. 2016).

    The penalty decides which K hypotheses are kept at a step (algorithm 1); their scores stay log-probabilities.
    """

    groups: int = 1
    penalty: float = 0.5

    def __call__(self, log_probs: Tensor, scores: Tensor, eos: int) -> Candidates:
        """log_probs [B*G, K, V], scores [B*G, K] -> parent, token, score, each [B*G, 2K]

        Of the 2K candidates with the best penalized scores, the K best that do not end, and those that end, have a
        finite score.
        """
        parts = list[Candidates]()
        log_probs, scores = (x.unflatten(0, (-1, self.groups)) for x in (log_probs, scores))
        taken = torch.zeros_like(log_probs[:, 0, 0])  # [B, V]: hypotheses of earlier groups that take a token
        for group in range(self.groups):
            penalized = log_probs[:, group] - self.penalty * taken.unsqueeze(1)
            parent, token, score = topk_continuations(penalized, scores[:, group], 2 * self.beam_size)
            continues = token != eos
            is_surplus = continues & (continues.cumsum(1) > self.beam_size)
            taken = taken.scatter_add(1, token, (~is_surplus & (score > NEG_INF)).to(taken.dtype))
            log_prob = log_probs[:, group].flatten(1).gather(1, parent * log_probs.size(-1) + token)
            score = (scores[:, group].gather(1, parent) + log_prob).masked_fill(is_surplus, NEG_INF)
            parts.append((parent, token, score))
        parent, token, score = (torch.stack(x, 1).flatten(0, 1) for x in zip(*parts, strict=True))
        return parent, token, score


@dataclass(frozen=True)
class Sampling(SearchStrategy):
    """K independent samples, with top-k and nucleus (top-p) filtering of the probabilities at the temperature."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    generator: torch.Generator | None = None

    def __call__(self, log_probs: Tensor, scores: Tensor, eos: int) -> Candidates:
        """log_probs [B, K, V], scores [B, K] -> parent, token, score, each [B, K]"""
        probs = self.probabilities(log_probs)
        token = draw_tokens(probs.flatten(0, 1), self.generator).view(scores.shape)
        parent = torch.arange(self.beam_size, device=scores.device).expand_as(token)
        return parent, token, scores + log_probs.gather(-1, token.unsqueeze(-1)).squeeze(-1)

    def probabilities(self, log_probs: Tensor) -> Tensor:
        """The distribution [B, K, V] that tokens are drawn from: temperature, then top-k, then top-p."""
        logits = log_probs / self.temperature
        if self.top_k is not None and self.top_k < logits.size(-1):
            lowest = logits.topk(self.top_k, -1).values[..., -1:]
            logits = logits.masked_fill(logits < lowest, NEG_INF)
        if self.top_p < 1.0:
            ordered, index = logits.sort(-1, descending=True)
            before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)  # probability of the more likely tokens
            nucleus = ordered.masked_fill(before >= self.top_p, NEG_INF)
            logits = torch.full_like(logits, NEG_INF).scatter(-1, index, nucleus)
        return logits.softmax(-1)


BLOCK_SIZE = 64
"""Tokens in a block, which is first represented by its maximum, or its sum of probabilities."""


def draw_tokens(probs: Tensor, generator: torch.Generator | None) -> Tensor:
    """A token of each distribution: [N, V] -> [N]

    First a block, then a token in it: `torch.multinomial` takes a random number for each of its probabilities. Where
    they are NaN, any token.
    """
    blocks = F.pad(probs, (0, -probs.size(1) % BLOCK_SIZE)).unflatten(1, (-1, BLOCK_SIZE))
    block = torch.multinomial(blocks.sum(-1).nan_to_num(1.0), 1, generator=generator).squeeze(1)
    tokens = blocks[torch.arange(len(blocks), device=block.device), block].nan_to_num(1.0)
    return block * BLOCK_SIZE + torch.multinomial(tokens, 1, generator=generator).squeeze(1)


def topk_continuations(log_probs: Tensor, scores: Tensor, count: int) -> Candidates:
    """log_probs [B, K, V], scores [B, K] -> parent, token, score, each [B, count] or fewer, best first

    The best `count` tokens are in the `count` blocks with the highest maxima: only these blocks are searched.
    """
    sentences, beam_size, vocab_size = log_probs.shape
    blocks = vocab_size // BLOCK_SIZE
    if beam_size * blocks <= 2 * count:
        score, index = (scores.unsqueeze(-1) + log_probs).flatten(1).topk(min(count, beam_size * vocab_size))
        return index // vocab_size, index % vocab_size, score
    blocked = log_probs[..., : blocks * BLOCK_SIZE].unflatten(-1, (blocks, BLOCK_SIZE))
    best = (blocked.amax(-1) + scores.unsqueeze(-1)).flatten(1).topk(count).indices
    parent, block = best // blocks, best % blocks
    sentence = torch.arange(sentences, device=best.device).unsqueeze(1)
    candidates = (blocked[sentence, parent, block] + scores.gather(1, parent).unsqueeze(-1)).flatten(1)
    token = (block.unsqueeze(-1) * BLOCK_SIZE + torch.arange(BLOCK_SIZE, device=best.device)).flatten(1)
    parent = parent.repeat_interleave(BLOCK_SIZE, 1)
    rest = vocab_size - blocks * BLOCK_SIZE
    if rest:
        last = log_probs[..., blocks * BLOCK_SIZE :] + scores.unsqueeze(-1)
        number = torch.arange(beam_size * rest, device=best.device)
        candidates = torch.cat([candidates, last.flatten(1)], 1)
        token = torch.cat([token, (blocks * BLOCK_SIZE + number % rest).expand(sentences, -1)], 1)
        parent = torch.cat([parent, (number // rest).expand(sentences, -1)], 1)
    score, index = candidates.topk(count)
    return parent.gather(1, index), token.gather(1, index), score
