"""Ensembles: several models with one target vocabulary, whose predictions are averaged at each step."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

import torch
from torch import Tensor

from seq2attn.models.seq2seq import IdPairs


class SearchModel(Protocol):
    """Interface of a model for search: `Seq2Seq`, an ensemble, or an exported model."""

    @property
    def device(self) -> torch.device:
        """Device of its tensors."""

    def encode_sources(self, sources: Sequence[Sequence[int]]) -> tuple[Any, Any]:
        """Memory, and the state before the first token, of token ids without EOS."""

    def step(self, ids: Tensor, state: Any, memory: Any) -> tuple[Tensor, Any]:
        """Decode one token [N] -> log-probabilities [N, V] of the next token, and the next state."""

    def token_log_probs(self, pairs: IdPairs) -> Tensor:
        """Log-probabilities of the target tokens and EOS of each pair [B, T], by forced decoding; then padding."""


@dataclass(frozen=True)
class EnsembleSource(Sequence[int]):
    """Token ids of a source for each model of an ensemble; as a sequence, those of the first."""

    members: tuple[Sequence[int], ...]

    def __len__(self) -> int:
        return len(self.members[0])

    def __getitem__(self, index: Any) -> Any:
        return self.members[0][index]


@dataclass(frozen=True)
class Ensemble:
    """The mean of the probabilities of several models, to be searched like one of them.

    The logarithm of the mean, not the mean of the logarithms: as in fairseq, and in Sockeye by default.
    """

    models: tuple[SearchModel, ...]

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.models[0].device

    def encode_sources(self, sources: Sequence[Sequence[int]]) -> tuple[Any, Any]:
        """Memories and states of all models. A source is an `EnsembleSource`, or the same ids for all models."""
        encoded = (model.encode_sources(part) for model, part in zip(self.models, self._split(sources), strict=True))
        memories, states = zip(*encoded, strict=True)
        return memories, states

    def step(self, ids: Tensor, state: Any, memory: Any) -> tuple[Tensor, Any]:
        """Decode one token [N] -> log-probabilities [N, V] of the next token, and the next states."""
        steps = (model.step(ids, *parts) for model, *parts in zip(self.models, state, memory, strict=True))
        log_probs, states = zip(*steps, strict=True)
        return log_mean_exp(log_probs), states

    def token_log_probs(self, pairs: IdPairs) -> Tensor:
        """Log-probabilities of the target tokens and EOS of each pair [B, T], by forced decoding; then padding."""
        sources, targets = zip(*pairs, strict=True)
        parts = [list(zip(part, targets, strict=True)) for part in self._split(sources)]
        return log_mean_exp(model.token_log_probs(part) for model, part in zip(self.models, parts, strict=True))

    def _split(self, sources: Sequence[Sequence[int]]) -> list[list[Sequence[int]]]:
        """The sources of each model."""
        return [
            [source.members[index] if isinstance(source, EnsembleSource) else source for source in sources]
            for index in range(len(self.models))
        ]


def log_mean_exp(log_probs: Iterable[Tensor]) -> Tensor:
    """Logarithm of the mean of probabilities, from their logarithms."""
    parts = tuple(log_probs)
    return reduce(torch.logaddexp, parts) - math.log(len(parts))
