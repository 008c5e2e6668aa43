"""Search over any step function: greedy, beam and sampling are three choices inside one loop.

Log-probabilities only fall, so a hypothesis can at best be worth what it is worth now at its greatest length.

Shapes: B sentences of which b are not yet finished, K hypotheses a sentence, C candidates, L words, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from seq2attn.nn.decoding_state import reorder_beams, repeat_rows, select_rows, select_sentences
from seq2attn.search.length_penalty import LengthLimits, LengthPenalty
from seq2attn.search.strategies import NEG_INF, SearchStrategy

Step = Callable[[Tensor, Any, Any], tuple[Tensor, Any]]
"""(last words [N], state, memory) -> (log-probabilities [N, V], which are the search's to write into, next state)"""

CHECK_EVERY = 8
"""Steps on a card between two looks at who is finished, each of which waits for it. Elsewhere a look costs nothing."""

NO_LENGTH_PENALTY = LengthPenalty("none")

COMPACT_SHARE = 16
"""One sentence in so many must have finished for those to leave: the others are then copied together."""


@dataclass(frozen=True)
class Hypotheses:
    """What was found for each sentence, best first. Where fewer than K were found the score is -inf."""

    tokens: Tensor  # [B, K, L], the end and all that follows it: eos
    scores: Tensor  # [B, K], log-probabilities made comparable across lengths
    log_probs: Tensor  # [B, K]

    @classmethod
    def empty(cls, sentences: int, width: int, length: int, eos: int, device: torch.device) -> Hypotheses:
        """Nothing found."""
        scores = torch.full((sentences, width), NEG_INF, device=device)
        return cls(torch.full((sentences, width, length), eos, device=device), scores, scores)


@torch.no_grad()
def search(
    step: Step,
    state: Any,
    memory: Any,
    *,
    choose: SearchStrategy,
    limits: LengthLimits,
    bos: int,
    eos: int,
    never: tuple[int, ...] = (),
    lengths: LengthPenalty = NO_LENGTH_PENALTY,
) -> Hypotheses:
    """Decode every sentence until none of its live hypotheses can beat its worst finished one, or enough are finished.

    `state` and `memory` have a row a sentence. Words of `never` are not chosen, whatever their probability. Finished
    sentences leave the batch some at a time, and find nothing while they wait.
    """
    device, b, k = limits.max_length.device, limits.max_length.size(0), choose.beam_size
    bars = TokenConstraints.from_limits(limits, eos, never)
    penalties = lengths.penalty(torch.arange(bars.max_length + 1, device=device))
    longest_penalty = lengths.penalty(limits.max_length)
    done = found = Hypotheses.empty(b, k, bars.max_length + 1, eos, device)
    live = found.tokens.index_fill(2, torch.zeros(1, dtype=torch.long, device=device), bos)
    here = torch.arange(b, device=device)  # the sentences still searched, which `found` is about
    scores, ends = choose.initial_scores(torch.zeros(b, k, device=device)), torch.zeros_like(here)

    for t in range(1, bars.max_length + 1):
        log_probs, state = _read(step, live, t, state, memory)
        if t == 1:
            state = repeat_rows(state, k)
        parent, token, score = choose(bars.apply(log_probs, limits, t).expand(-1, k, -1), scores)
        ended = token == eos
        found = _best(found, live, parent, score, ended, penalties[t])
        scores, kept = score.masked_fill(ended, NEG_INF).topk(k)
        if k > 1:
            parent = parent.gather(1, kept)
            live, state = _take(live, parent), reorder_beams(state, parent)
        live[..., t] = token.gather(1, kept)

        ends = ends + (ended & (score > NEG_INF))[:, :k].sum(1)
        going = (scores[:, 0] / longest_penalty > found.scores[:, -1]) & (ends < choose.max_finished)
        scores = scores.where(going.unsqueeze(1), NEG_INF)
        if device.type == "cpu" or t % CHECK_EVERY == 0:
            alive = going.nonzero().squeeze(1)
            if not len(alive):
                break
            if len(going) - len(alive) >= len(going) / COMPACT_SHARE:
                done, state = _put(done, here, found), select_sentences(state, alive, k)
                rows = (here, live, scores, ends, longest_penalty, found, limits, memory)
                here, live, scores, ends, longest_penalty, found, limits, memory = select_rows(rows, alive)
    done = _put(done, here, found)
    return Hypotheses(done.tokens[..., 1:], done.scores, done.log_probs)


def _read(step: Step, live: Tensor, t: int, state: Any, memory: Any) -> tuple[Tensor, Any]:
    """Read what stands before word `t`: at first all hypotheses are one. The log-probabilities [b, K or 1, V]"""
    words = live[..., t - 1] if t > 1 else live[:, :1, 0]
    log_probs, state = step(words.flatten(), state, memory)
    return log_probs.unflatten(0, words.shape), state


@dataclass(frozen=True)
class TokenConstraints:
    """Words that must not be chosen. What they would be chosen for is made impossible before the choice.

    To overwrite what was chosen would put copies into a beam.
    """

    forbidden: Tensor  # ids
    eos: int
    last_too_early: int  # up to here some sentence must not end
    first_forced_end: int  # from here on some sentence must
    max_length: int

    @classmethod
    def from_limits(cls, limits: LengthLimits, eos: int, never: tuple[int, ...]) -> TokenConstraints:
        """What limits [B] say of all sentences, asked of the device once."""
        barred = torch.tensor(never, dtype=torch.long, device=limits.max_length.device)
        bounds = torch.stack(
            [limits.min_length.max() - 1, limits.max_length.min(), limits.max_length.max()]
        ).tolist()
        return cls(barred, eos, *bounds)

    def apply(self, log_probs: Tensor, limits: LengthLimits, t: int) -> Tensor:
        """No end before the fewest words, nothing but the end at the most, nothing of `never`, and the prefix first:

        [b, K or 1, V], which is written into.
        """
        log_probs.index_fill_(-1, self.forbidden, NEG_INF)
        end = log_probs[..., self.eos]
        if t <= self.last_too_early:
            end.masked_fill_((t < limits.min_length).unsqueeze(1), NEG_INF)
        if t >= self.first_forced_end:
            kept = end.clone()
            log_probs.masked_fill_((t >= limits.max_length)[:, None, None], NEG_INF)
            end.copy_(kept)
        return limits.force(log_probs, t)


def _best(
    old: Hypotheses, live: Tensor, parent: Tensor, log_prob: Tensor, ended: Tensor, penalty: Tensor
) -> Hypotheses:
    """The K best of those found before and of the candidates [b, C] that have ended: their parents and the end."""
    if ended.device.type == "cpu" and not ended.any():
        return old
    k, score = old.scores.size(1), (log_prob / penalty).where(ended, NEG_INF)
    scores, index = torch.cat([old.scores, score], 1).topk(k)
    row = torch.cat([torch.arange(k, device=parent.device).expand(len(parent), -1), parent + k], 1)
    tokens = _take(torch.cat([old.tokens, live], 1), row.gather(1, index))
    return Hypotheses(tokens, scores, torch.cat([old.log_probs, log_prob], 1).gather(1, index))


def _put(done: Hypotheses, sentences: Tensor, found: Hypotheses) -> Hypotheses:
    """`done` with `found` in the place of `sentences`."""
    return Hypotheses(
        done.tokens.index_copy(0, sentences, found.tokens),
        done.scores.index_copy(0, sentences, found.scores),
        done.log_probs.index_copy(0, sentences, found.log_probs),
    )


def _take(x: Tensor, index: Tensor) -> Tensor:
    """x [b, K, L], index [b, C] -> [b, C, L]"""
    return x.gather(1, index.unsqueeze(-1).expand(-1, -1, x.size(-1)))
