"""Additive scores in chunks, without a tensor of [B, H, T, S, d]: v . tanh(q + k).

Shapes: B sentences, H heads, T queries, S keys, d the common width of query and key.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
tanh_backward = torch.ops.aten.tanh_backward.grad_input

CHUNK_SIZE = {"cpu": 2**18}
"""Elements of [B, H, T, S, d] that are computed at a time, by device type (1 MB in float32)."""
DEFAULT_CHUNK_SIZE = 2**26
"""Elements of a chunk on other devices, where small chunks cost more than memory."""


def additive_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """v . tanh(q + k): [B, H, T, d], [B, H, S, d], [H, 1, d] -> [B, H, T, S]"""
    dtype = torch.promote_types(q.dtype, torch.float32)
    q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    if torch.compiler.is_compiling():  # the loop of `_chunks` would be unrolled for fixed sizes
        tanh = torch.tanh(q.unsqueeze(-2) + k.unsqueeze(-3))
        return (tanh * v.unsqueeze(-2)).sum(-1)  # autocast would round a matrix product to bfloat16
    return METHODS.get(q.device.type, METHODS["cuda"]).apply(q, k, v)


class _ByTanh(torch.autograd.Function):
    """The formula, as a sum of products: autocast would round a matrix product to bfloat16.

    The backward pass computes the tanh again, which is cheaper than keeping it.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(q, k, v)
        scores = q.new_empty(*q.shape[:-1], k.size(-2))
        for (b, h, t), tanh in _chunks(q, k, Tensor.tanh_):
            torch.sum(tanh.mul_(v[h, 0]), -1, out=scores[b, h, t])
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = ctx.saved_tensors
        d_q, d_k, d_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for (b, h, t), tanh in _chunks(q, k, Tensor.tanh_):
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
    """tanh(x) as 2 sigmoid(2x) - 1, which PyTorch computes several times faster on a CPU, to the same 7 digits.

    The backward pass computes the sigmoid again, which is cheaper than reading it from memory.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(q, k, v)
        scores = q.new_empty(*q.shape[:-1], k.size(-2))
        for (b, h, t), sigmoid in _chunks(q, k, _sigmoid_of_twice):
            scores[b, h, t] = torch.mv(sigmoid.flatten(0, -2), v[h, 0]).view(sigmoid.shape[:-1])  # no autocast of `mv`
        return scores.mul_(2).sub_(v.sum(-1, keepdim=True))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = ctx.saved_tensors
        d_q, d_k = torch.empty_like(q), torch.zeros_like(k)
        d_v = torch.zeros_like(v) - d_scores.sum((0, 2, 3)).view(-1, 1, 1)
        for (b, h, t), sigmoid in _chunks(q, k, _sigmoid_of_twice):
            d_score, direction = d_scores[b, h, t], 4 * v[h, 0]
            d_v[h, 0] += 2 * (sigmoid.flatten(0, -2).t() @ d_score.flatten())
            slope = sigmoid_backward(d_score.unsqueeze(-1), sigmoid, grad_input=sigmoid)
            torch.mul(slope.sum(2), direction, out=d_q[b, h, t])
            if q.size(2) == 1:
                torch.mul(slope.squeeze(1), direction, out=d_k[b, h])
            else:
                d_k[b, h] += slope.sum(1) * direction
        return d_q, d_k, d_v


METHODS: dict[str, type[torch.autograd.Function]] = {"cpu": _BySigmoid, "cuda": _ByTanh}
"""The fastest method, by device type; other devices have that of CUDA."""
Chunk = tuple[slice, int, slice]
"""Slice of sentences, index of a head, slice of queries."""


def _sigmoid_of_twice(x: Tensor) -> Tensor:
    """sigmoid(2 x), in place."""
    return x.mul_(2).sigmoid_()


def _chunks(q: Tensor, k: Tensor, fn: Callable[[Tensor], Tensor]) -> Iterator[tuple[Chunk, Tensor]]:
    """fn(q + k) [b, t, S, d] for chunks of sentences, one head, and chunks of queries, in one reused buffer.

    `fn` works in place.
    """
    (sentences, heads, queries, dim), keys = q.shape, k.size(2)
    max_elements = CHUNK_SIZE.get(q.device.type, DEFAULT_CHUNK_SIZE)
    num_queries = min(queries, max(1, max_elements // max(1, keys * dim)))
    num_sentences = min(sentences, max(1, max_elements // max(1, num_queries * keys * dim)))
    buffer = q.new_empty(num_sentences, num_queries, keys, dim)
    for head in range(heads):
        for b in (slice(start, start + num_sentences) for start in range(0, sentences, num_sentences)):
            for t in (slice(start, start + num_queries) for start in range(0, queries, num_queries)):
                query, key = q[b, head, t].unsqueeze(2), k[b, head].unsqueeze(1)
                chunk = buffer[: query.size(0), : query.size(1)]
                yield (b, head, t), fn(torch.add(query, key, out=chunk))
