"""Search over any step function: one loop for greedy search, beam search and sampling.

Log-probabilities only decrease, so the best score that a hypothesis can reach is its log-probability of now, at its
maximum length.

Shapes: B sentences of which b are active, K hypotheses per sentence, C candidates, L tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from seq2attn.nn.decoding_state import reorder_beams, repeat_rows, select_rows, select_sentences
from seq2attn.search.length_penalty import LengthLimits, LengthPenalty
from seq2attn.search.lexical_constraints import phrase_continuations
from seq2attn.search.strategies import NEG_INF, SearchStrategy

Step = Callable[[Tensor, Any, Any], tuple[Tensor, Any]]
"""(last tokens [N], state, memory) -> (log-probabilities [N, V], which search overwrites, next state)"""

CHECK_EVERY = 8
"""Steps on a GPU between two checks for finished sentences; each check synchronizes with the GPU.

In between, the end of the last sentence is detected one step late, without synchronizing.
"""
COMPACT_SHARE = 16
"""Finished sentences are removed from the batch, which copies the others, once they are 1 in 16."""
NO_LENGTH_PENALTY = LengthPenalty("none")


@dataclass(frozen=True)
class Hypotheses:
    """Finished hypotheses of each sentence, best first. Missing ones have the score -inf."""

    tokens: Tensor  # [B, K, L], padded with EOS
    scores: Tensor  # [B, K], log-probabilities with the length penalty
    log_probs: Tensor  # [B, K]

    @classmethod
    def empty(cls, sentences: int, width: int, length: int, eos: int, device: torch.device) -> Hypotheses:
        """No hypothesis for any sentence."""
        scores = torch.full((sentences, width), NEG_INF, device=device)
        return cls(torch.full((sentences, width, length), eos, device=device), scores, scores)


@torch.no_grad()
def search(
    step: Step,
    state: Any,
    memory: Any,
    *,
    strategy: SearchStrategy,
    limits: LengthLimits,
    bos: int,
    eos: int,
    suppress_tokens: tuple[int, ...] = (),
    lengths: LengthPenalty = NO_LENGTH_PENALTY,
    no_repeat_ngram_size: int | None = None,
    end_score: Callable[[Any], Tensor] | None = None,
) -> Hypotheses:
    """Decode each sentence until no live hypothesis can beat its worst finished one, or enough are finished.

    `state` and `memory` have one row per sentence, or per group of its hypotheses. `suppress_tokens` are never
    selected, and n-grams of `no_repeat_ngram_size` tokens once. `end_score`: a number of at most 0 for each row of a
    state [N], added to the scores of hypotheses that end. NaN as a log-probability is the best score of its sentence.
    """
    device, b, k = limits.max_length.device, limits.max_length.size(0), strategy.beam_size
    constraints = TokenConstraints.from_limits(limits, eos, suppress_tokens, no_repeat_ngram_size)
    penalties = lengths.penalty(torch.arange(constraints.max_length + 1, device=device))
    longest_penalty = lengths.penalty(limits.max_length)
    finished = best = Hypotheses.empty(b, k, constraints.max_length + 1, eos, device)
    live = best.tokens.index_fill(2, torch.zeros(1, dtype=torch.long, device=device), bos)
    active = torch.arange(b, device=device)  # indices of the active sentences
    scores, num_finished = strategy.initial_scores(torch.zeros(b, k, device=device)), torch.zeros_like(active)
    improving: AsyncFlag | None = None

    for t in range(1, constraints.max_length + 1):
        log_probs, state = _step(step, live, t, state, memory)
        state = state if t > 1 else repeat_rows(state, k)
        log_probs = constraints.apply(log_probs, limits, t, live).expand(-1, k, -1)
        select = (
            strategy if limits.phrases is None else partial(phrase_continuations, live[..., 1:t], limits.phrases, eos)
        )
        parent, token, score = select(log_probs, scores)
        ended = (token == eos) | score.isnan()  # which is then the best score
        best = _merge_ended(best, live, parent, score, ended, penalties[t], end_score and end_score(state))
        scores, index = score.masked_fill(ended, NEG_INF).topk(k)
        if k > 1:
            parent = parent.gather(1, index)
            live, state = _gather(live, parent), reorder_beams(state, parent)
        live[..., t] = token.gather(1, index)

        num_finished = num_finished + (ended & (score > NEG_INF))[:, :k].sum(1)
        can_improve = (scores[:, 0] / longest_penalty > best.scores[:, -1]) & (num_finished < strategy.max_finished)
        scores = scores.where(can_improve.unsqueeze(1), NEG_INF)
        if is_synchronous(device) or t % CHECK_EVERY == 0:
            improving = None
            remaining = _remaining_rows(can_improve, strategy.groups)
            if not len(remaining):
                break
            if len(can_improve) - len(remaining) >= len(can_improve) / COMPACT_SHARE:
                finished, state = _update(finished, active, best), select_sentences(state, remaining, k)
                rows = (active, live, scores, num_finished, longest_penalty, best, limits, memory)
                active, live, scores, num_finished, longest_penalty, best, limits, memory = select_rows(rows, remaining)
        else:
            if improving is not None and not improving.wait():
                break
            improving = AsyncFlag(can_improve.any())
    finished = _update(finished, active, best)
    return Hypotheses(finished.tokens[..., 1:], finished.scores, finished.log_probs)


def is_synchronous(device: torch.device) -> bool:
    """True if a value can be read from the device without waiting."""
    return device.type == "cpu"


class AsyncFlag:
    """A bool that is copied from a CUDA device while it computes."""

    def __init__(self, value: Tensor) -> None:
        self.value, self.copied = value.to("cpu", non_blocking=True), torch.cuda.Event()
        self.copied.record(torch.cuda.current_stream(value.device))  # not that of the default GPU

    def wait(self) -> bool:
        """The value, when it has been copied."""
        self.copied.synchronize()
        return bool(self.value)


def _step(step: Step, live: Tensor, t: int, state: Any, memory: Any) -> tuple[Tensor, Any]:
    """Log-probabilities [b, K or 1, V] of token `t`, and the next state; one hypothesis per sentence at first."""
    tokens = live[..., t - 1] if t > 1 else live[:, :1, 0]
    log_probs, state = step(tokens.flatten(), state, memory)
    return log_probs.unflatten(0, tokens.shape), state


@dataclass(frozen=True)
class TokenConstraints:
    """Token constraints: forbidden tokens get a log-probability of -inf before candidates are selected.

    Replacing selected tokens afterwards would put duplicate hypotheses into the beam.
    """

    forbidden: Tensor  # ids
    eos: int
    last_too_early: int  # up to this step some sentence must not end
    first_forced_end: int  # from this step on some sentence must end
    max_length: int
    no_repeat_ngram_size: int | None

    @classmethod
    def from_limits(
        cls, limits: LengthLimits, eos: int, suppress_tokens: tuple[int, ...], no_repeat_ngram_size: int | None
    ) -> TokenConstraints:
        """Constraints for all sentences, read from the device once."""
        forbidden = torch.tensor(suppress_tokens, dtype=torch.long, device=limits.max_length.device)
        bounds = torch.stack([limits.min_length.max() - 1, limits.max_length.min(), limits.max_length.max()])
        last_too_early, first_forced_end, max_length = bounds.tolist()
        return cls(forbidden, eos, last_too_early, first_forced_end, max_length, no_repeat_ngram_size)

    def apply(self, log_probs: Tensor, limits: LengthLimits, t: int, live: Tensor) -> Tensor:
        """Log-probabilities [b, K or 1, V] of step `t` under all constraints, for hypotheses `live` [b, K, L] with BOS.

        Works in place.
        """
        log_probs.index_fill_(-1, self.forbidden, NEG_INF)
        end = log_probs[..., self.eos]
        if t <= self.last_too_early:
            end.masked_fill_((t < limits.min_length).unsqueeze(1), NEG_INF)
        if t >= self.first_forced_end:
            end_log_probs = end.clone()
            log_probs.masked_fill_((t >= limits.max_length)[:, None, None], NEG_INF)
            end.copy_(end_log_probs)
        log_probs = limits.force(log_probs, t)
        if self.no_repeat_ngram_size is None:
            return log_probs
        return block_repeated_ngrams(log_probs, live[..., 1:t], self.no_repeat_ngram_size)


def _remaining_rows(can_improve: Tensor, groups: int) -> Tensor:
    """The rows of sentences of which any group of hypotheses can improve."""
    if groups > 1:
        can_improve = can_improve.view(-1, groups).any(1).repeat_interleave(groups)
    return can_improve.nonzero().squeeze(1)


def _merge_ended(
    best: Hypotheses,
    live: Tensor,
    parent: Tensor,
    log_prob: Tensor,
    ended: Tensor,
    penalty: Tensor,
    end_score: Tensor | None,
) -> Hypotheses:
    """The K best of the finished hypotheses and of the candidates [b, C] that end in this step.

    The score is `log_prob` divided by `penalty`, plus the `end_score` [b*K] of the parent.
    """
    if ended.device.type == "cpu" and not ended.any():
        return best
    k, score = best.scores.size(1), (log_prob / penalty).where(ended, NEG_INF)
    if end_score is not None:
        score = score + end_score.view(len(parent), k).gather(1, parent)
    scores, index = torch.cat([best.scores, score], 1).topk(k)
    row = torch.cat([torch.arange(k, device=parent.device).expand(len(parent), -1), parent + k], 1)
    tokens = _gather(torch.cat([best.tokens, live], 1), row.gather(1, index))
    return Hypotheses(tokens, scores, torch.cat([best.log_probs, log_prob], 1).gather(1, index))


def _update(finished: Hypotheses, sentences: Tensor, best: Hypotheses) -> Hypotheses:
    """`finished` with `best` at the rows `sentences`."""
    return Hypotheses(
        finished.tokens.index_copy(0, sentences, best.tokens),
        finished.scores.index_copy(0, sentences, best.scores),
        finished.log_probs.index_copy(0, sentences, best.log_probs),
    )


def _gather(x: Tensor, index: Tensor) -> Tensor:
    """x [b, K, L], index [b, C] -> [b, C, L]"""
    return x.gather(1, index.unsqueeze(-1).expand(-1, -1, x.size(-1)))


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
    bounds = torch.full_like(is_repeated, float("inf"), dtype=log_probs.dtype).masked_fill(is_repeated, float("-inf"))
    blocked = log_probs.scatter_reduce(-1, ngrams[..., -1], bounds, "amin")
    return torch.where((blocked == float("-inf")).all(-1, keepdim=True), log_probs, blocked)
