"""Lexical constraints: beam search for translations that contain given phrases (Post & Vilar 2018).

As in dynamic beam allocation, the beam is shared by banks of hypotheses with the same number of tokens of the phrases:
the best of each bank is kept, then the second-best of each. A hypothesis ends when it has all phrases. One always does,
as the next token of a phrase is a candidate for the hypothesis that lacks the fewest.

Shapes: b sentences, K hypotheses, n hypotheses of any number, T tokens so far, C phrases of at most M tokens.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2attn.search.strategies import NEG_INF, Candidates

FREE = -1
"""Placeholder for any token in a prefix, and after the end of a phrase."""


def matched_tokens(tokens: Tensor, phrases: Tensor) -> Tensor:
    """The tokens of each phrase that hypotheses have: all, or those at their end. tokens [b, n, T] -> [b, n, C]"""
    lengths = (phrases != FREE).sum(-1).unsqueeze(1)  # [b, 1, C]
    matched = lengths.new_zeros(*tokens.shape[:2], phrases.size(1))
    count, longest = tokens.size(-1), phrases.size(-1)
    if not count:
        return matched
    for size in range(1, min(longest - 1, count) + 1):
        is_begun = (tokens[:, :, None, count - size :] == phrases[:, None, :, :size]).all(-1)
        matched = matched.masked_fill(is_begun, size)
    windows = F.pad(tokens, (0, longest - 1), value=FREE - 1).unfold(-1, longest, 1)  # [b, n, T, M]
    expected = phrases[:, None, :, None]
    is_met = ((windows[:, :, None] == expected) | (expected == FREE)).all(-1).any(-1)
    return torch.where(is_met, lengths, matched)


def phrase_continuations(tokens: Tensor, phrases: Tensor, eos: int, log_probs: Tensor, scores: Tensor) -> Candidates:
    """tokens [b, K, T], phrases [b, C, M], log_probs [b, K, V], scores [b, K] -> parent, token, score, each [b, 2K]

    The K continuations that are kept, and those that end, best first; other scores are -inf. Without phrases, they are
    those of a beam search.
    """
    k, lengths = scores.size(1), (phrases != FREE).sum(-1).unsqueeze(1)
    matched = matched_tokens(tokens, phrases)
    log_probs = forbid_early_end(log_probs, matched, lengths, eos)
    parent, token, score = _candidates(log_probs, scores, _next_tokens(phrases, matched))

    grown = torch.cat([tokens.gather(1, parent.unsqueeze(-1).expand(-1, -1, tokens.size(-1))), token.unsqueeze(-1)], -1)
    matched = matched_tokens(grown, phrases)
    is_met, ended = matched == lengths, (token == eos) | score.isnan()
    missing = lengths.masked_fill(is_met, 0).sum(-1) - matched.masked_fill(is_met, 0).amax(-1)
    is_kept = _allocate(missing, ~ended & (score > NEG_INF), k, banks=phrases[0].numel() + 1)
    among_best = torch.arange(score.size(1), device=score.device) < 2 * k
    is_kept |= ended & (among_best | (lengths.sum(-1) > 0))
    score, index = score.masked_fill(~is_kept, NEG_INF).topk(2 * k)
    return parent.gather(1, index), token.gather(1, index), score


def forbid_early_end(log_probs: Tensor, matched: Tensor, lengths: Tensor, eos: int) -> Tensor:
    """log_probs [b, K, V] with -inf for EOS where a phrase is missing; matched tokens [b, K, C] of lengths [b, 1, C]"""
    end = log_probs[..., eos].masked_fill((matched != lengths).any(-1), NEG_INF)
    return log_probs.select_scatter(end, -1, eos)


def _next_tokens(phrases: Tensor, matched: Tensor) -> Tensor:
    """The token of each phrase after those that are matched; any token for a phrase that is met: [b, K, C]"""
    position = matched.clamp(max=phrases.size(-1) - 1).unsqueeze(-1)
    return phrases.unsqueeze(1).expand(-1, matched.size(1), -1, -1).gather(-1, position).squeeze(-1).clamp(min=0)


def _candidates(log_probs: Tensor, scores: Tensor, following: Tensor) -> Candidates:
    """The 2K best continuations of each hypothesis and those by `following` [b, K, C], each once, best first: [b, n]"""
    best = log_probs.topk(min(2 * scores.size(1), log_probs.size(-1)), -1).indices
    token = torch.cat([best, following], -1)
    is_equal = token.unsqueeze(-1) == token.unsqueeze(-2)
    is_repeated = is_equal.tril(-1).any(-1)
    score = (scores.unsqueeze(-1) + log_probs.gather(-1, token)).masked_fill(is_repeated, NEG_INF)
    score, index = score.flatten(1).sort(1, descending=True)
    return index // token.size(-1), token.flatten(1).gather(1, index), score


def _allocate(missing: Tensor, is_possible: Tensor, k: int, banks: int) -> Tensor:
    """The K candidates [b, n] that are kept: by their rank in their bank, then by the number of `missing` tokens."""
    in_bank = F.one_hot(missing, banks) * is_possible.unsqueeze(-1)
    rank = in_bank.cumsum(1).gather(-1, missing.unsqueeze(-1)).squeeze(-1)
    order = (rank * banks + missing).masked_fill(~is_possible, torch.iinfo(missing.dtype).max)
    kept = order.topk(min(k, order.size(1)), 1, largest=False).indices
    return torch.zeros_like(is_possible).scatter(1, kept, True) & is_possible
