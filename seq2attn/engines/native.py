"""Our own model in our own search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from seq2attn.data.batches import collate_source
from seq2attn.model import Seq2Seq
from seq2attn.search.batched import Hypothesis, by_length, translate_ids
from seq2attn.search.config import SearchConfig
from seq2attn.text.vocabulary import BOS, EOS, PAD


@dataclass(frozen=True)
class Native:
    """The engine that has every model and every search."""

    model: Seq2Seq = field(repr=False)

    def translate(
        self, sources: Sequence[Sequence[int]], search: SearchConfig, *, budget: int
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source, best first."""
        return translate_ids(self.model, sources, search, budget=budget)

    @torch.no_grad()
    def score(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], *, budget: int) -> list[float]:
        """log p(target, end | source) of each pair of ids without their ends."""
        device = next(self.model.parameters()).device
        scores = [0.0] * len(pairs)
        for rows in by_length([(*source, *target) for source, target in pairs], budget):
            source, mask = collate_source([pairs[row][0] for row in rows])
            longest = max(len(pairs[row][1]) for row in rows) + 1
            target = torch.full((len(rows), longest + 1), PAD)
            for i, row in enumerate(rows):
                words = torch.tensor([BOS, *pairs[row][1], EOS])
                target[i, : len(words)] = words
            target = target.to(device)
            hidden = self.model(source.to(device), mask.to(device), target[:, :-1]).hidden
            log_probs = torch.log_softmax(self.model.output(hidden).float(), -1)
            found = (
                log_probs.gather(-1, target[:, 1:, None]).squeeze(-1).masked_fill(target[:, 1:] == PAD, 0.0)
            )
            for row, score in zip(rows, found.sum(1).tolist(), strict=True):
                scores[row] = score
        return scores
