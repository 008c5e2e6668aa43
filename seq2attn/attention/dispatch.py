"""Kernels for a softmax of scaled dot products, which need no scores and weights in memory, and the choice of one.

Shapes: B sentences, H heads, G heads of keys and values, T queries, S keys, d and v the widths of a head.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2attn.attention.align_functions import AlignmentFunction, GlobalAlignment
from seq2attn.attention.base import Memory, QueryInfo
from seq2attn.attention.scores import DotScore, ScoreFunction
from seq2attn.nn.kernels.varlen import padded_attention, varlen_attention
from seq2attn.nn.layers import repeat_kv
from seq2attn.nn.packing import SequenceLayout

UNFUSED_MAX_SCORES = 64 * 64
"""Queries times keys of a sentence up to which training on a CPU is faster without the fused kernel."""


def fusable_score(score: ScoreFunction, alignment: AlignmentFunction) -> DotScore | None:
    """The score if the kernels compute the same function, otherwise None; a derived class is another function."""
    if type(score) is DotScore and score.scaled and type(alignment) is GlobalAlignment:
        return score
    return None


def prefers_unfused(q: Tensor, k: Tensor) -> bool:
    """True for training on a CPU with few scores, where plain matrix products are faster than the fused kernel."""
    return q.device.type == "cpu" and torch.is_grad_enabled() and q.size(2) * k.size(2) <= UNFUSED_MAX_SCORES


def fused_context(
    score: DotScore, q: Tensor, memory: Memory, info: QueryInfo, *, causal: bool, dropout: float
) -> Tensor:
    """q [B, H, T, d] -> the context [B, H, T, v], by `scaled_dot_product_attention`, which returns no weights."""
    mask, bias = memory.mask, score.bias(q, memory.keys, info)
    if bias is not None:
        if mask is not None or causal:
            bias = bias.masked_fill(~expand_mask(memory, q.size(2), causal=causal), -torch.inf)
        mask, causal = bias, False
    elif memory.bias is not None:
        mask, causal = memory.bias.to(q.dtype), False
    keys, values, is_grouped = memory.keys, memory.values, score.kv_heads < score.heads
    if is_grouped and mask is not None and q.device.type != "cpu":
        return attend_in_groups(q, keys, values, mask, dropout)
    return F.scaled_dot_product_attention(q, keys, values, mask, dropout, is_causal=causal, enable_gqa=is_grouped)


def varlen_context(q: Tensor, memory: Memory, layout: SequenceLayout, *, causal: bool, dropout: float) -> Tensor:
    """q [1, H, M, d] of packed sentences -> the context [1, H, M, v], each query's of its own sentence."""
    assert memory.layout is not None, "the source of packed targets is packed too"
    keys, values = repeat_kv(memory.keys, q.size(1)), repeat_kv(memory.values, q.size(1))
    layouts = layout, memory.layout
    if q.device.type == "cpu" or memory.bias is not None:
        return padded_attention(q, keys, values, layouts, causal=causal, bias=memory.bias, dropout=dropout)
    return varlen_attention(q, keys, values, layouts, causal=causal, dropout=dropout)


def expand_mask(memory: Memory, queries: int, *, causal: bool) -> Tensor:
    """The mask of the memory; of ones, or lower triangular if `causal`, where it has none."""
    if memory.mask is not None:
        return memory.mask
    keys = memory.keys.size(2)
    mask = torch.ones(1, 1, queries, keys, dtype=torch.bool, device=memory.keys.device)
    return mask.tril() if causal else mask


def attend_in_groups(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, dropout: float) -> Tensor:
    """[B, H, T, d], [B, G, S, d], [B, G, S, v], mask or bias [B or 1, H or 1, T or 1, S] -> the context [B, H, T, v].

    The heads of a group are folded into its queries. PyTorch's CUDA kernels support grouped heads or a mask; with
    both it falls back to a kernel that materializes the weights.
    """
    groups, heads = k.size(1), q.size(1)
    if mask.size(1) * mask.size(2) > 1:
        mask = mask.expand(-1, heads, q.size(2), -1).unflatten(1, (groups, -1)).flatten(2, 3)
    folded = q.unflatten(1, (groups, -1)).flatten(2, 3)
    context = F.scaled_dot_product_attention(folded, k, v, mask, dropout)
    return context.unflatten(2, (heads // groups, -1)).flatten(1, 2)
