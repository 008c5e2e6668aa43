"""Additive scores without their table: v . tanh(q + k) of a few queries and keys at a time, near the processor.

Shapes: B sentences, H heads, T queries, S keys, d the width in which a query and a key meet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input

NEAR = {"cpu": 2**18}
"""How many numbers of [B, H, T, S, d] are made at a time on a kind of device (1 MB in float32)."""
FAR = 2**26
"""The same elsewhere, where small pieces cost more than memory."""


def additive_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """v . tanh(q + k): [B, H, T, d], [B, H, S, d], [H, 1, d] -> [B, H, T, S]"""
    if torch.compiler.is_compiling():  # which would fix the sizes that `_pieces` loops over
        return (torch.tanh(q.unsqueeze(-2) + k.unsqueeze(-3)) @ v.unsqueeze(-1)).squeeze(-1)
    scores: Tensor = _Additive.apply(q, k, v.to(q.dtype))  # type: ignore[no-untyped-call]
    return scores


class _Additive(torch.autograd.Function):
    """With tanh(x) as 2 sigmoid(2x) - 1, which PyTorch makes several times faster on a CPU, to the same 7 digits.

    Backwards the sigmoid is made again: that is cheaper than reading it from memory.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(q, k, v)
        scores = q.new_empty(*q.shape[:-1], k.size(-2))
        for (b, h, t), sigmoid in _pieces(q, k):
            scores[b, h, t] = (sigmoid.flatten(0, -2) @ v[h, 0]).view(sigmoid.shape[:-1])
        return scores.mul_(2).sub_(v.sum(-1, keepdim=True))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = ctx.saved_tensors
        d_q, d_k = torch.empty_like(q), torch.zeros_like(k)
        d_v = torch.zeros_like(v) - d_scores.sum((0, 2, 3)).view(-1, 1, 1)
        for (b, h, t), sigmoid in _pieces(q, k):
            d_score, direction = d_scores[b, h, t], 4 * v[h, 0]
            d_v[h, 0] += 2 * (sigmoid.flatten(0, -2).t() @ d_score.flatten())
            slope = sigmoid_backward(d_score.unsqueeze(-1), sigmoid, grad_input=sigmoid)
            torch.mul(slope.sum(2), direction, out=d_q[b, h, t])
            if q.size(2) == 1:
                torch.mul(slope.squeeze(1), direction, out=d_k[b, h])
            else:
                d_k[b, h] += slope.sum(1) * direction
        return d_q, d_k, d_v


Piece = tuple[slice, int, slice]
"""Sentences, a head, queries."""


def _pieces(q: Tensor, k: Tensor) -> Iterator[tuple[Piece, Tensor]]:
    """sigmoid(2 q + 2 k) [b, t, S, d] of a few sentences, a head, and a few queries, each in the place of the last."""
    (sentences, heads, queries, dim), keys = q.shape, k.size(2)
    most = NEAR.get(q.device.type, FAR)
    some = min(queries, max(1, most // max(1, keys * dim)))
    few = min(sentences, max(1, most // max(1, some * keys * dim)))
    place = q.new_empty(few, some, keys, dim)
    for head in range(heads):
        for b in (slice(start, start + few) for start in range(0, sentences, few)):
            for t in (slice(start, start + some) for start in range(0, queries, some)):
                one, other = q[b, head, t].unsqueeze(2), k[b, head].unsqueeze(1)
                sigmoid = place[: one.size(0), : one.size(1)]
                yield (b, head, t), torch.add(one, other, out=sigmoid).mul_(2).sigmoid_()
