"""Heads that share keys, as PyTorch's kernels for cards are asked: these take shared keys or a mask."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from seq2attn.attention.attention import Attention, attend_in_groups
from seq2attn.attention.scores import MultiHeadScore

B, H, G, T, S, D = 3, 4, 2, 9, 7, 8


def rand(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


@pytest.mark.parametrize("shape", [(B, 1, 1), (1, 1, T), (B, 1, T), (B, H, T)], ids=str)
@pytest.mark.parametrize("is_bias", [False, True])
def test_heads_that_share_keys_are_queries_to_them(shape, is_bias):
    q, k, v = rand(B, H, T, 6), rand(B, G, S, 6, seed=1), rand(B, G, S, 5, seed=2)
    mask = rand(*shape, S, seed=3)
    mask = mask if is_bias else (mask > 0).index_fill(-1, torch.tensor([0]), True)
    expected = F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
    torch.testing.assert_close(attend_in_groups(q, k, v, mask, 0.0), expected)


class Asked(TorchFunctionMode):
    """Remembers what PyTorch's attention is called with."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is F.scaled_dot_product_attention:
            self.calls.append((args, kwargs or {}))
        return func(*args, **(kwargs or {}))


def test_a_card_is_not_given_both_shared_keys_and_a_mask():
    with torch.device("meta"):
        attention = Attention(MultiHeadScore(D, D, H, G), projection=(D, D))
        words, position = torch.zeros(B, T, D), torch.zeros(B, T, dtype=torch.long)
        memory = attention.project_memory(words, words, torch.ones(B, T, dtype=torch.bool))
    with Asked() as asked:
        assert attention(words, memory, position).context.shape == (B, T, D)
    ((q, k, _, mask, *_), options) = asked.calls[0]
    assert q.size(1) == k.size(1) == G and mask is not None and not options.get("enable_gqa")
