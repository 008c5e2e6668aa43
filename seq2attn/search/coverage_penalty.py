"""Coverage penalty: translations that leave source words without attention get lower scores (Wu et al. 2016, eq. 14).

Shapes: B sentences, N rows, S source tokens with EOS, L layers, H heads.
"""

from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from seq2attn.errors import UserError
from seq2attn.models.ensemble import Ensemble, SearchModel
from seq2attn.models.seq2seq import IdPairs, Seq2Seq, check_weights
from seq2attn.search.search import EndScore


@dataclass(frozen=True)
class CoverageState:
    """State of a decoder, and the sum of the attention weights of each source token so far."""

    state: Any
    coverage: Tensor  # [N, S]; 1 more for EOS and padding, which need none

    @property
    def penalty(self) -> Tensor:
        """Sum of log(min(coverage, 1)) over the source: [N]; a coverage of 0 counts as the smallest positive number."""
        return self.coverage.clamp(torch.finfo(self.coverage.dtype).tiny, 1.0).log().sum(-1)


@dataclass(frozen=True)
class CoverageModel:
    """A model with `CoverageState`: the mean attention of the heads of its top layer is added up."""

    model: Seq2Seq

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.model.device

    def encode_sources(self, sources: Any) -> tuple[Any, CoverageState]:
        """Memory, and the state before the first token, of token ids without EOS."""
        memory, state = self.model.encode_sources(sources)
        lengths = torch.tensor([len(source) for source in sources], device=self.device)
        positions = torch.arange(int(lengths.max()) + 1, device=self.device)
        return memory, CoverageState(state, (positions >= lengths.unsqueeze(1)).float())

    def step(self, ids: Tensor, state: CoverageState, memory: Any) -> tuple[Tensor, CoverageState]:
        """Decode one token [N] -> log-probabilities [N, V] of the next token, and the next state.

        Raises UserError for a decoder without attention, and for weights that are not one for each source token.
        """
        decoded = self.model.decode(ids.unsqueeze(1), state.state, memory, need_weights=True)
        if decoded.cross_attention is None:  # [N, L, H, 1, S]
            raise UserError("`search.coverage_penalty` needs a decoder with attention")
        check_weights(decoded.cross_attention, state.coverage.size(1))
        coverage = state.coverage + decoded.cross_attention[:, -1].float().mean(1).squeeze(1)
        return self.model.log_probs(decoded.hidden[:, -1]), CoverageState(decoded.state, coverage)

    def token_log_probs(self, pairs: IdPairs) -> Tensor:
        """Log-probabilities of the model, which has no state."""
        return self.model.token_log_probs(pairs)


def with_coverage(model: SearchModel, weight: float) -> tuple[SearchModel, EndScore]:
    """The model, or each of an ensemble, with `CoverageState`; and the penalty [N] of a state, at most 0.

    The penalty is times `weight`, and for an ensemble the mean of those of its models.
    """
    if isinstance(model, Ensemble):
        ensemble = Ensemble(tuple(map(_coverage_model, model.models)))
        return ensemble, lambda states: weight / len(states) * reduce(torch.add, (state.penalty for state in states))
    return _coverage_model(model), lambda state: weight * state.penalty


def _coverage_model(model: SearchModel) -> CoverageModel:
    assert isinstance(model, Seq2Seq), "engines without attention weights refuse the penalty"
    return CoverageModel(model)
