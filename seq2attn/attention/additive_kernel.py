"""Additive scores without their table: v . tanh(q + k) of a few queries and keys at a time.

Shapes: B sentences, H heads, T queries, S keys, d the width in which a query and a key meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
tanh_backward = torch.ops.aten.tanh_backward.grad_input

CHUNK_SIZE = {"cpu": 2**18}
"""How many numbers of [B, H, T, S, d] are made at a time on a kind of device (1 MB in float32)."""
DEFAULT_CHUNK_SIZE = 2**26
"""The same elsewhere, where small pieces cost more than memory."""


def additive_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """v . tanh(q + k): [B, H, T, d], [B, H, S, d], [H, 1, d] -> [B, H, T, S]"""
    if torch.compiler.is_compiling():  # which would fix the sizes that `_pieces` loops over
        return (torch.tanh(q.unsqueeze(-2) + k.unsqueeze(-3)) @ v.unsqueeze(-1)).squeeze(-1)
    return (scores_by_sigmoid if q.device.type == "cpu" else scores_by_tanh)(q, k, v)


def scores_by_sigmoid(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """`additive_scores` as a CPU makes them fastest."""
    scores: Tensor = _BySigmoid.apply(q, k, v.to(q.dtype))  # type: ignore[no-untyped-call]
    return scores


def scores_by_tanh(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """`additive_scores` in float32 at least, as of two sigmoids in bfloat16 the difference would be mostly error."""
    kind = torch.promote_types(q.dtype, torch.float32)
    scores: Tensor = _ByTanh.apply(q.to(kind), k.to(kind), v.to(kind))  # type: ignore[no-untyped-call]
    return scores


class _ByTanh(torch.autograd.Function):
    """The formula: a sum of products, as autocast would round a product of matrices.

    Backwards the tanh is computed again: that is cheaper than to keep it.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(q, k, v)
        scores = q.new_empty(*q.shape[:-1], k.size(-2))
        for (b, h, t), tanh in _pieces(q, k, Tensor.tanh_):
            torch.sum(tanh.mul_(v[h, 0]), -1, out=scores[b, h, t])
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = ctx.saved_tensors
        d_q, d_k, d_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for (b, h, t), tanh in _pieces(q, k, Tensor.tanh_):
            d_score = d_scores[b, h, t].unsqueeze(-1)
            d_v[h, 0] += (tanh * d_score).sum((0, 1, 2))
            slope = tanh_backward(d_score * v[h, 0], tanh, grad_input=tanh)
            torch.sum(slope, 2, out=d_q[b, h, t])
            if q.size(2) == 1:
                d_k[b, h] = slope.squeeze(1)
            else:
                d_k[b, h] += slope.sum(1)
        return d_q, d_k, d_v


class _BySigmoid(torch.autograd.Function):
    """With tanh(x) as 2 sigmoid(2x) - 1, which PyTorch makes several times faster on a CPU, to the same 7 digits.

    Backwards the sigmoid is made again: that is cheaper than reading it from memory.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(q, k, v)
        scores = q.new_empty(*q.shape[:-1], k.size(-2))
        for (b, h, t), sigmoid in _pieces(q, k, _sigmoid_of_twice):
            scores[b, h, t] = (sigmoid.flatten(0, -2) @ v[h, 0]).view(sigmoid.shape[:-1])
        return scores.mul_(2).sub_(v.sum(-1, keepdim=True))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = ctx.saved_tensors
        d_q, d_k = torch.empty_like(q), torch.zeros_like(k)
        d_v = torch.zeros_like(v) - d_scores.sum((0, 2, 3)).view(-1, 1, 1)
        for (b, h, t), sigmoid in _pieces(q, k, _sigmoid_of_twice):
            d_score, direction = d_scores[b, h, t], 4 * v[h, 0]
            d_v[h, 0] += 2 * (sigmoid.flatten(0, -2).t() @ d_score.flatten())
            slope = sigmoid_backward(d_score.unsqueeze(-1), sigmoid, grad_input=sigmoid)
            torch.mul(slope.sum(2), direction, out=d_q[b, h, t])
            if q.size(2) == 1:
                torch.mul(slope.squeeze(1), direction, out=d_k[b, h])
            else:
                d_k[b, h] += slope.sum(1) * direction
        return d_q, d_k, d_v


Chunk = tuple[slice, int, slice]
"""Sentences, a head, queries."""


def _sigmoid_of_twice(x: Tensor) -> Tensor:
    """sigmoid(2 x), in the place of x."""
    return x.mul_(2).sigmoid_()


def _pieces(q: Tensor, k: Tensor, fn: Callable[[Tensor], Tensor]) -> Iterator[tuple[Chunk, Tensor]]:
    """fn(q + k) [b, t, S, d] of a few sentences, a head, and a few queries, each in the place of the last.

    `fn` changes its argument.
    """
    (sentences, heads, queries, dim), keys = q.shape, k.size(2)
    most = CHUNK_SIZE.get(q.device.type, DEFAULT_CHUNK_SIZE)
    some = min(queries, max(1, most // max(1, keys * dim)))
    few = min(sentences, max(1, most // max(1, some * keys * dim)))
    place = q.new_empty(few, some, keys, dim)
    for head in range(heads):
        for b in (slice(start, start + few) for start in range(0, sentences, few)):
            for t in (slice(start, start + some) for start in range(0, queries, some)):
                one, other = q[b, head, t].unsqueeze(2), k[b, head].unsqueeze(1)
                piece = place[: one.size(0), : one.size(1)]
                yield (b, head, t), fn(torch.add(one, other, out=piece))
