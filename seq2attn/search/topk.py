"""The likeliest continuations of a sentence, without sorting the vocabulary.

Shapes: B sentences, K hypotheses a sentence, V words.
"""

from __future__ import annotations

import torch
from torch import Tensor

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
