"""Our own model in our own search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from seq2attn.data.batch_planner import batch_by_length
from seq2attn.data.collate import collate
from seq2attn.models import Seq2Seq
from seq2attn.search.config import SearchConfig
from seq2attn.search.translate_ids import Hypothesis, translate_ids


@dataclass(frozen=True)
class NativeEngine:
    """The engine that has every model and every search."""

    model: Seq2Seq = field(repr=False)
    max_source_length: int | None = None

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        search: SearchConfig,
        *,
        budget: int,
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source, best first."""
        return translate_ids(self.model, sources, search, budget=budget, prefixes=prefixes)

    @torch.no_grad()
    def token_log_probs(
        self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], *, budget: int
    ) -> list[list[float]]:
        """Forced decoding: the log-probability of each target token and of the end."""
        found = [list[float]() for _ in pairs]
        for rows in batch_by_length([(*source, *target) for source, target in pairs], budget):
            batch = collate([pairs[row] for row in rows]).to(self.model.device)
            hidden = self.model(batch.source, batch.source_mask, batch.target).hidden
            log_probs = self.model.log_probs(hidden)
            labels = batch.labels.clamp(min=0).unsqueeze(-1)
            for row, each in zip(rows, log_probs.gather(-1, labels).squeeze(-1).tolist(), strict=True):
                found[row] = each[: len(pairs[row][1]) + 1]
        return found
