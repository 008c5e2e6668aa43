"""Search over any step function: one loop for greedy search, beam search and sampling.

Log-probabilities only decrease, so the best score that a hypothesis can reach is its log-probability of now, at its
maximum length.

Shapes: B sentences of which b are active, K hypotheses per sentence, C candidates, L tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from seq2attn.nn.decoding_state import reorder_beams, repeat_rows, select_rows, select_sentences
from seq2attn.search.constraints import Constraints
from seq2attn.search.strategies import NEG_INF, Candidates, SearchStrategy

Step = Callable[[Tensor, Any, Any], tuple[Tensor, Any]]
"""(last tokens [N], state, memory) -> (log-probabilities [N, V], which search overwrites, next state)"""
EndScore = Callable[[Any], Tensor]
"""A number of at most 0 for each row of a state [N], added to the scores of hypotheses that end."""

CHECK_EVERY = 8
"""Steps on a GPU between two checks for finished sentences; each check synchronizes with the GPU.

In between, the end of the last sentence is detected one step late, without synchronizing.
"""
COMPACT_SHARE = 16
"""Finished sentences are removed from the batch, which copies the others, once they are 1 in 16."""


@dataclass(frozen=True)
class LengthPenalty:
    """Length penalty: log-probability to score.

    none: unchanged; average: divided by length ** alpha; gnmt: divided by ((5 + length) / 6) ** alpha (Wu et al. 2016,
    eq. 14).
    """

    kind: Literal["none", "average", "gnmt"] = "none"
    alpha: float = 1.0

    def penalty(self, length: Tensor) -> Tensor:
        """Divisor of the log-probability for lengths [...] that include EOS; never smaller for a longer one."""
        length = length.to(torch.float32)
        if self.kind == "average":
            return length**self.alpha
        return ((5.0 + length) / 6.0) ** self.alpha if self.kind == "gnmt" else torch.ones_like(length)


@dataclass(frozen=True)
class Scoring:
    """The score of a hypothesis beyond its log-probability."""

    lengths: LengthPenalty = LengthPenalty("none")
    end_score: EndScore | None = None


class Hypotheses(NamedTuple):
    """Finished hypotheses of each sentence, best first. Missing ones have the score -inf."""

    tokens: Tensor  # [B, K, L], padded with EOS
    scores: Tensor  # [B, K], log-probabilities with the length penalty
    log_probs: Tensor  # [B, K]

    def update(self, sentences: Tensor, hypotheses: Hypotheses) -> Hypotheses:
        """These hypotheses, with others for some `sentences` [b]."""
        return Hypotheses(*(old.index_copy(0, sentences, new) for old, new in zip(self, hypotheses, strict=True)))


@dataclass(frozen=True)
class Beams:
    """The hypotheses of the active sentences: live ones, and the best of those that have ended."""

    sentences: Tensor  # [b]: number of each sentence
    live: Tensor  # [b, K, L]: tokens, after BOS
    scores: Tensor  # [b, K]: log-probabilities
    ended: Hypotheses  # [b, K]
    num_ended: Tensor  # [b]
    longest_penalty: Tensor  # [b]: length penalty at the maximum length

    @classmethod
    def start(cls, strategy: SearchStrategy, constraints: Constraints, lengths: LengthPenalty) -> Beams:
        """Beams before the first token."""
        limits, k = constraints.limits, strategy.beam_size
        b, device = len(limits.max_length), limits.max_length.device
        tokens = torch.full((b, k, constraints.max_length + 1), constraints.eos, device=device)
        none = torch.full((b, k), NEG_INF, device=device)
        ended = Hypotheses(tokens, none, none)
        live = tokens.index_fill(2, torch.zeros(1, dtype=torch.long, device=device), constraints.bos)
        sentences = torch.arange(b, device=device)
        scores = strategy.initial_scores(torch.zeros(b, k, device=device))
        return cls(sentences, live, scores, ended, torch.zeros_like(sentences), lengths.penalty(limits.max_length))

    def extend(
        self, t: int, candidates: Candidates, eos: int, penalty: Tensor, end_score: Tensor | None, max_finished: float
    ) -> tuple[Beams, Tensor, Tensor]:
        """Beams with the candidates for token `t`, the parent [b, K] of each live hypothesis, and True [b] to go on.

        A sentence goes on if a live hypothesis can beat its worst ended one, and fewer than `max_finished` have ended.
        """
        parent, token, score = candidates
        is_end = (token == eos) | score.isnan()  # which is then the best score
        ended = self._merge_ended(parent, score, is_end, penalty, end_score)
        k, live = self.scores.size(1), self.live
        scores, index = score.masked_fill(is_end, NEG_INF).topk(k)
        if k > 1:
            parent = parent.gather(1, index)
            live = _gather(live, parent)
        live[..., t] = token.gather(1, index)
        num_ended = self.num_ended + (is_end & (score > NEG_INF))[:, :k].sum(1)
        can_improve = (scores[:, 0] / self.longest_penalty > ended.scores[:, -1]) & (num_ended < max_finished)
        scores = scores.where(can_improve.unsqueeze(1), NEG_INF)
        return replace(self, live=live, scores=scores, ended=ended, num_ended=num_ended), parent, can_improve

    def _merge_ended(
        self, parent: Tensor, log_prob: Tensor, is_end: Tensor, penalty: Tensor, end_score: Tensor | None
    ) -> Hypotheses:
        """The K best of the ended hypotheses and of the candidates [b, C] that end in this step.

        The score is `log_prob` divided by `penalty`, plus the `end_score` [b*K] of the parent.
        """
        ended = self.ended
        if is_end.device.type == "cpu" and not is_end.any():
            return ended
        k, score = ended.scores.size(1), (log_prob / penalty).where(is_end, NEG_INF)
        if end_score is not None:
            score = score + end_score.view(len(parent), k).gather(1, parent)
        scores, index = torch.cat([ended.scores, score], 1).topk(k)
        row = torch.cat([torch.arange(k, device=parent.device).expand(len(parent), -1), parent + k], 1)
        tokens = _gather(torch.cat([ended.tokens, self.live], 1), row.gather(1, index))
        return Hypotheses(tokens, scores, torch.cat([ended.log_probs, log_prob], 1).gather(1, index))


@dataclass(frozen=True)
class SearchStep:
    """One step of a search, for an observer: all that was considered, and the beams before and after it."""

    number: int  # t, from 1
    strategy: SearchStrategy
    constraints: Constraints
    penalty: Tensor  # length penalty of hypotheses that end
    end_score: Tensor | None  # [b*K], added to the scores of hypotheses that end after them
    model_log_probs: Tensor  # [b, K, V], or [b, 1, V] in the first step
    log_probs: Tensor  # [b, K, V] under the constraints
    candidates: Candidates
    before: Beams
    after: Beams
    parent: Tensor  # [b, K], of the live hypotheses after it


SearchObserver = Callable[[SearchStep], None]
"""Called after each step. Later steps may overwrite the tensors, but not those of finished hypotheses."""


@torch.no_grad()
def search(
    step: Step,
    state: Any,
    memory: Any,
    *,
    strategy: SearchStrategy,
    constraints: Constraints,
    scoring: Scoring = Scoring(),
    observer: SearchObserver | None = None,
) -> Hypotheses:
    """Decode each sentence until no live hypothesis can beat its worst finished one, or enough are finished.

    `state` and `memory` have one row per sentence, or per group of its hypotheses. NaN as a log-probability is the best
    score of its sentence.
    """
    beams = Beams.start(strategy, constraints, scoring.lengths)
    output, k, check = beams.ended, strategy.beam_size, EndCheck(strategy.groups)
    penalties = scoring.lengths.penalty(torch.arange(constraints.max_length + 1, device=beams.live.device))
    for t in range(1, constraints.max_length + 1):
        log_probs, state = _step(step, beams.live, t, state, memory)
        state = state if t > 1 else repeat_rows(state, k)
        model_log_probs = log_probs if observer is None else log_probs.clone()  # constraints overwrite them
        log_probs = constraints.apply(log_probs, beams.live, t).expand(-1, k, -1)
        candidates = constraints.select(strategy, log_probs, beams.scores, beams.live, t)
        end_score = None if scoring.end_score is None else scoring.end_score(state)
        before = beams
        beams, parent, can_improve = beams.extend(
            t, candidates, constraints.eos, penalties[t], end_score, strategy.max_finished
        )
        if observer is not None:
            rules = strategy, constraints, penalties[t], end_score
            observer(SearchStep(t, *rules, model_log_probs, log_probs, candidates, before, beams, parent))
        state = reorder_beams(state, parent) if k > 1 else state
        if (remaining := check.remaining_rows(can_improve, t)) is not None and not len(remaining):
            break
        if remaining is not None and len(can_improve) - len(remaining) >= len(can_improve) / COMPACT_SHARE:
            output, state = output.update(beams.sentences, beams.ended), select_sentences(state, remaining, k)
            (beams, memory), constraints = select_rows((beams, memory), remaining), constraints.select_rows(remaining)
    output = output.update(beams.sentences, beams.ended)
    return Hypotheses(output.tokens[..., 1:], output.scores, output.log_probs)


def _step(step: Step, live: Tensor, t: int, state: Any, memory: Any) -> tuple[Tensor, Any]:
    """Log-probabilities [b, K or 1, V] of token `t`, and the next state; one hypothesis per sentence at first."""
    tokens = live[..., t - 1] if t > 1 else live[:, :1, 0]
    log_probs, state = step(tokens.flatten(), state, memory)
    return log_probs.unflatten(0, tokens.shape), state


def _gather(x: Tensor, index: Tensor) -> Tensor:
    """x [b, K, L], index [b, C] -> [b, C, L]"""
    return x.gather(1, index.unsqueeze(-1).expand(-1, -1, x.size(-1)))


class EndCheck:
    """Check for finished sentences, which rarely waits for a GPU."""

    def __init__(self, groups: int) -> None:
        """`groups` of hypotheses of each sentence, which end together."""
        self.groups = groups
        self.improving: AsyncFlag | None = None

    def remaining_rows(self, can_improve: Tensor, t: int) -> Tensor | None:
        """The rows of sentences of which any group of hypotheses can improve at step `t`; None if not known."""
        if not is_synchronous(can_improve.device) and t % CHECK_EVERY:
            is_finished = self.improving is not None and not self.improving.wait()
            self.improving = AsyncFlag(can_improve.any())
            return can_improve.new_empty(0, dtype=torch.long) if is_finished else None
        self.improving = None
        if self.groups > 1:
            can_improve = can_improve.view(-1, self.groups).any(1).repeat_interleave(self.groups)
        return can_improve.nonzero().squeeze(1)


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
