"""Constraints of translations: length limits, forbidden tokens, forced prefixes, phrases, and repeated n-grams.

Shapes: b active sentences of B, K hypotheses per sentence, L tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from seq2attn.nn.decoding_state import select_rows
from seq2attn.search.lexical_constraints import FREE, phrase_continuations
from seq2attn.search.strategies import NEG_INF, Candidates, SearchStrategy


@dataclass(frozen=True)
class LengthLimits:
    """Minimum and maximum length of each translation, including EOS, its prefix and phrases."""

    min_length: Tensor  # [B] long, at least 1
    max_length: Tensor  # [B] long, at least `min_length`
    prefix: Tensor | None = None  # [B, P] long, the first tokens; FREE after a shorter prefix
    phrases: Tensor | None = None  # [B, C, M] long, tokens that it contains; FREE after a shorter phrase

    def with_prefixes(self, prefixes: Sequence[Sequence[int]]) -> LengthLimits:
        """Limits with a prefix for each sentence, and a maximum length of at least the prefix and EOS."""
        width = max(map(len, prefixes), default=0)
        if not width:
            return self
        prefix = torch.tensor([[*ids, *[FREE] * (width - len(ids))] for ids in prefixes])
        return LengthLimits(self.min_length, torch.maximum(self.max_length, (prefix != FREE).sum(1) + 1), prefix)

    def with_phrases(self, phrases: Sequence[Sequence[Sequence[int]]]) -> LengthLimits:
        """Limits with phrases for each sentence, and a maximum length of at least prefix, phrases and EOS."""
        width, longest = max(map(len, phrases)), max((len(ids) for row in phrases for ids in row), default=0)
        if not width:
            return self
        padded = torch.full((len(phrases), width, longest), FREE)
        for row, sentence in enumerate(phrases):
            for number, ids in enumerate(sentence):
                padded[row, number, : len(ids)] = torch.tensor(ids)
        count = (padded != FREE).sum((1, 2)) + (0 if self.prefix is None else (self.prefix != FREE).sum(1))
        return replace(self, max_length=torch.maximum(self.max_length, count + 1), phrases=padded)


@dataclass(frozen=True)
class Constraints:
    """Constraints on the tokens of all active sentences.

    Tokens that are not allowed get a log-probability of -inf before candidates are selected: replacing selected tokens
    afterwards would put duplicate hypotheses into the beam.
    """

    limits: LengthLimits  # of the active sentences
    forbidden: Tensor  # ids
    bos: int
    eos: int
    last_too_early: int  # up to this step some sentence must not end
    first_forced_end: int  # from this step on some sentence must end
    max_length: int
    no_repeat_ngram_size: int | None

    @classmethod
    def from_limits(
        cls,
        limits: LengthLimits,
        bos: int,
        eos: int,
        suppress_tokens: tuple[int, ...] = (),
        no_repeat_ngram_size: int | None = None,
    ) -> Constraints:
        """Constraints of a search; `suppress_tokens` never occur, and no n-gram of this size occurs twice."""
        forbidden = torch.tensor(suppress_tokens, dtype=torch.long, device=limits.max_length.device)
        bounds = torch.stack([limits.min_length.max() - 1, limits.max_length.min(), limits.max_length.max()])
        last_too_early, first_forced_end, max_length = bounds.tolist()  # read from the device once
        return cls(limits, forbidden, bos, eos, last_too_early, first_forced_end, max_length, no_repeat_ngram_size)

    def select_rows(self, rows: Tensor) -> Constraints:
        """The constraints of the sentences `rows`."""
        return replace(self, limits=select_rows(self.limits, rows))

    def apply(self, log_probs: Tensor, live: Tensor, t: int) -> Tensor:
        """Log-probabilities [b, K or 1, V] of token `t` under all constraints, in place; `live` [b, K, L] has BOS."""
        log_probs.index_fill_(-1, self.forbidden, NEG_INF)
        self._limit_length(log_probs, t)
        prefix, size = self.limits.prefix, self.no_repeat_ngram_size
        if prefix is not None and t <= prefix.size(1):
            log_probs = force_tokens(log_probs, prefix[:, t - 1])
        return log_probs if size is None else block_repeated_ngrams(log_probs, live[..., 1:t], size)

    def _limit_length(self, log_probs: Tensor, t: int) -> None:
        end = log_probs[..., self.eos]
        if t <= self.last_too_early:
            end.masked_fill_((t < self.limits.min_length).unsqueeze(1), NEG_INF)
        if t >= self.first_forced_end:
            end_log_probs = end.clone()
            log_probs.masked_fill_((t >= self.limits.max_length)[:, None, None], NEG_INF)
            end.copy_(end_log_probs)

    def select(self, strategy: SearchStrategy, log_probs: Tensor, scores: Tensor, live: Tensor, t: int) -> Candidates:
        """Candidates of the strategy among all continuations of `live` [b, K, L]; with phrases, what allows them."""
        if self.limits.phrases is None:
            return strategy(log_probs, scores, self.eos)
        return phrase_continuations(live[..., 1:t], self.limits.phrases, self.eos, log_probs, scores)


def force_tokens(log_probs: Tensor, token: Tensor) -> Tensor:
    """log_probs [b, K, V] with -inf for all but `token` [b], where this is not FREE."""
    token = token[:, None, None]
    index = token.clamp(min=0).expand(-1, log_probs.size(1), -1)
    forced = torch.full_like(log_probs, NEG_INF).scatter(-1, index, log_probs.gather(-1, index))
    return torch.where(token == FREE, log_probs, forced)


def block_repeated_ngrams(log_probs: Tensor, tokens: Tensor, size: int) -> Tensor:
    """log_probs [b, K, V] with -inf for tokens that would repeat an n-gram of the hypotheses `tokens` [b, K, T].

    A hypothesis that could not be continued otherwise is left as it is, for example where a prefix is forced
    (Paulus et al. 2018, section 2.5; `no_repeat_ngram_size` of Hugging Face).
    """
    if tokens.size(-1) < size:
        return log_probs
    ngrams = tokens.unfold(-1, size, 1)  # [b, K, T - size + 1, size]
    last = tokens[..., tokens.size(-1) - size + 1 :]
    is_repeated = (ngrams[..., :-1] == last.unsqueeze(-2)).all(-1)
    bounds = torch.full_like(is_repeated, float("inf"), dtype=log_probs.dtype).masked_fill(is_repeated, NEG_INF)
    blocked = log_probs.scatter_reduce(-1, ngrams[..., -1], bounds, "amin")
    return torch.where((blocked == NEG_INF).all(-1, keepdim=True), log_probs, blocked)
