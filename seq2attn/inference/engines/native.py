"""The native engine: the model in PyTorch, with the search of this package."""

from dataclasses import dataclass, field

import torch

from seq2attn.data.collate import batch_by_length
from seq2attn.inference.engines.base import Engine
from seq2attn.models.ensemble import SearchModel
from seq2attn.models.seq2seq import IdPairs
from seq2attn.nn.precision import autocast
from seq2attn.options import SearchPrecision
from seq2attn.search.search import SearchObserver
from seq2attn.search.search_config import SearchConfig
from seq2attn.search.translate_ids import Hypothesis, Phrases, SearchExecution, TokenIds, translate_ids


@dataclass(frozen=True)
class NativeEngine(Engine):
    """The engine of all models and searches."""

    name = "native"

    model: SearchModel = field(repr=False)
    precision: SearchPrecision = "float32"  # of the products in a search
    cuda_graphs: bool = False  # capture the steps of a search, for a GPU
    observer: SearchObserver | None = None  # of all steps of a search

    @property
    def description(self) -> str:
        """Name, precision and use of CUDA graphs, for reports."""
        return f"native {self.precision}{' with CUDA graphs' if self.cuda_graphs else ''}"

    def translate(
        self, sources: TokenIds, search: SearchConfig, *, budget: int, prefixes: TokenIds = (), phrases: Phrases = ()
    ) -> list[list[Hypothesis]]:
        """Hypotheses of each source, best first."""
        with autocast(self.precision, self.model.device):
            return translate_ids(
                self.model,
                sources,
                search,
                budget=budget,
                prefixes=prefixes,
                phrases=phrases,
                execution=SearchExecution(self.cuda_graphs, self.observer),
            )

    @torch.no_grad()
    def token_log_probs(self, pairs: IdPairs, *, budget: int) -> list[list[float]]:
        """Forced decoding: the log-probability of each target token and of EOS."""
        output = [list[float]() for _ in pairs]
        for rows in batch_by_length([(*source, *target) for source, target in pairs], budget):
            log_probs = self.model.token_log_probs([pairs[row] for row in rows])
            for row, each in zip(rows, log_probs.tolist(), strict=True):
                output[row] = each[: len(pairs[row][1]) + 1]
        return output
