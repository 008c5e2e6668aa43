"""Blocking of repeated n-grams (Paulus et al. 2018, section 2.5), as `no_repeat_ngram_size` of Hugging Face."""

from __future__ import annotations

import torch
from torch import Tensor


def block_repeated_ngrams(log_probs: Tensor, tokens: Tensor, size: int) -> Tensor:
    """log_probs [b, K, V] with -inf for tokens that would repeat an n-gram of the hypotheses `tokens` [b, K, T].

    A hypothesis that could not be continued otherwise is left as it is, for example where a prefix is forced.
    """
    if tokens.size(-1) < size:
        return log_probs
    ngrams = tokens.unfold(-1, size, 1)  # [b, K, T - size + 1, size]
    last = tokens[..., tokens.size(-1) - size + 1 :]
    is_repeated = (ngrams[..., :-1] == last.unsqueeze(-2)).all(-1)
    bounds = torch.full_like(is_repeated, float("inf"), dtype=log_probs.dtype).masked_fill(is_repeated, float("-inf"))
    blocked = log_probs.scatter_reduce(-1, ngrams[..., -1], bounds, "amin")
    return torch.where((blocked == float("-inf")).all(-1, keepdim=True), log_probs, blocked)
