"""Search over any step function: greedy, beam and sampling are three choices inside one loop.

Shapes: B sentences of which b are not yet finished, K hypotheses a sentence, C candidates, L words, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from seq2attn.search.choose import NEVER, Choose
from seq2attn.search.lengths import LengthRule, Limits
from seq2attn.state import repeat_rows, select_rows

Step = Callable[[Tensor, Any, Any], tuple[Tensor, Any]]
"""(last words [N], state, memory) -> (log-probabilities [N, V], next state)"""


@dataclass(frozen=True)
class Hypotheses:
    """What was found for each sentence, best first. Where fewer than K were found the score is -inf."""

    tokens: Tensor  # [B, K, L], the end and all that follows it: eos
    scores: Tensor  # [B, K], log-probabilities made comparable across lengths
    log_probs: Tensor  # [B, K]


@torch.no_grad()  # not inference_mode: what was found may become training text
def search(
    step: Step,
    state: Any,
    memory: Any,
    *,
    choose: Choose,
    limits: Limits,
    bos: int,
    eos: int,
    never: tuple[int, ...] = (),
    lengths: LengthRule | None = None,
) -> Hypotheses:
    """Decode every sentence until none of its live hypotheses can beat its worst finished one.

    `state` and `memory` have a row a sentence. A sentence that is finished leaves the batch. Words of `never` are not
    chosen, whatever their probability.
    """
    lengths = lengths or LengthRule()
    longest = int(limits.most.max())
    device, b, k = limits.most.device, limits.most.size(0), choose.width
    nothing = torch.full((b, k), NEVER, device=device)
    live = torch.full((b, k, longest + 1), eos, device=device)
    done = found = Hypotheses(live, nothing, nothing)
    here = torch.arange(b, device=device)  # the sentences still searched, which `found` is about
    live = live.index_fill(2, here.new_zeros(1), bos)
    scores, state = choose.first(torch.zeros(b, k, device=device)), repeat_rows(state, k)

    for t in range(1, longest + 1):
        log_probs, state = step(live[..., t - 1].flatten(), state, memory)
        log_probs = _within(log_probs.unflatten(0, (-1, k)), limits, t, eos, never)
        parent, token, score = choose(log_probs, scores)
        candidates = _take(live, parent)
        candidates[..., t] = token
        ended = token == eos

        penalty = lengths.penalty(torch.tensor(t, device=device))
        found = _best(found, Hypotheses(candidates, (score / penalty).where(ended, NEVER), score), k)
        scores, kept = score.masked_fill(ended, NEVER).topk(k)
        live, parent = _take(candidates, kept), parent.gather(1, kept)

        best_yet_possible = scores.max(1).values / lengths.penalty(limits.most)  # log-probabilities only fall
        going = best_yet_possible > found.scores[:, -1]
        rows = parent + torch.arange(0, parent.numel(), k, device=device).unsqueeze(1)
        if not going.all():
            done = _put(done, here[~going], found, ~going)
            if not going.any():
                break
            alive = going.nonzero().squeeze(1)
            here, live, scores, rows = here[alive], live[alive], scores[alive], rows[alive]
            found, limits, memory = select_rows((found, limits, memory), alive)
        state = select_rows(state, rows.flatten())
    return Hypotheses(done.tokens[..., 1:], done.scores, done.log_probs)


def _within(log_probs: Tensor, limits: Limits, t: int, eos: int, never: tuple[int, ...]) -> Tensor:
    """No end before the fewest words, nothing but the end at the most, nothing of `never`. [b, K, V] -> [b, K, V]

    The rest is made impossible before choosing: to overwrite what was chosen would put copies into a beam.
    """
    end, barred = torch.zeros(2, log_probs.size(-1), dtype=torch.bool, device=log_probs.device)
    end[eos] = True
    for word in never:
        barred[word] = True
    early, last = (t < limits.fewest)[:, None, None], (t >= limits.most)[:, None, None]
    return log_probs.masked_fill((early & end) | (last & ~end) | barred, NEVER)


def _best(old: Hypotheses, new: Hypotheses, k: int) -> Hypotheses:
    """The k best of both."""
    scores, index = torch.cat([old.scores, new.scores], 1).topk(k)
    tokens = _take(torch.cat([old.tokens, new.tokens], 1), index)
    return Hypotheses(tokens, scores, torch.cat([old.log_probs, new.log_probs], 1).gather(1, index))


def _put(done: Hypotheses, sentences: Tensor, found: Hypotheses, rows: Tensor) -> Hypotheses:
    """`done` with the `rows` (bool [b]) of `found` in the place of `sentences`."""
    return Hypotheses(
        done.tokens.index_copy(0, sentences, found.tokens[rows]),
        done.scores.index_copy(0, sentences, found.scores[rows]),
        done.log_probs.index_copy(0, sentences, found.log_probs[rows]),
    )


def _take(x: Tensor, index: Tensor) -> Tensor:
    """x [b, K, L], index [b, C] -> [b, C, L]"""
    return x.gather(1, index.unsqueeze(-1).expand(-1, -1, x.size(-1)))
