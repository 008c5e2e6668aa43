"""Padding-free attention: sentences packed in one row, each attending to itself alone.

Shapes: B sentences of M tokens in all, of queries or of keys; L tokens of the longest; H heads, d and v the
widths of a head.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2attn.nn.packing import SequenceLayout
from seq2attn.nn.precision import autocast_dtype

HEAD_DIM_MULTIPLE, MAX_HEAD_DIM = 8, 256
"""FlashAttention needs one width of a head for keys and values: a multiple of the one, at most the other."""


Layouts = tuple[SequenceLayout, SequenceLayout]
"""Layouts of the queries and of the keys."""


def padded_attention(
    q: Tensor, k: Tensor, v: Tensor, layouts: Layouts, *, causal: bool, bias: Tensor | None = None, dropout: float = 0.0
) -> Tensor:
    """softmax(q . k / sqrt(d)) v as of `varlen_attention`, by padding for a kernel.

    There is no fast variable-length kernel for a CPU, nor for a bias [B or 1, H, L, L']: of the scores of padded
    sentences, minus infinity for keys that a query does not attend to.
    """
    query_layout, key_layout = layouts
    mask = None if causal else key_layout.padding_mask()
    if bias is not None:
        mask, causal = bias.to(q.dtype), False
    padded = query_layout.pad(q), key_layout.pad(k), key_layout.pad(v)
    return query_layout.unpad(F.scaled_dot_product_attention(*padded, mask, dropout, is_causal=causal))


def varlen_attention(
    q: Tensor, k: Tensor, v: Tensor, layouts: Layouts, *, causal: bool, dropout: float = 0.0
) -> Tensor:
    """softmax(q . k / sqrt(d)) v over the keys of the query's sentence (Vaswani et al. 2017, eq. 1).

    q [1, H, M, d], k and v [1, H, M', d or v], packed by `layouts` -> [1, H, M, v]. `causal`: keys and queries are of
    the same tokens, and each query attends up to its own position.

    On a GPU, FlashAttention is used for 16 bits, and otherwise that of xFormers, through nested tensors, which take
    more time on the host.
    """
    query_layout, key_layout = layouts
    dim = -(-max(q.size(-1), v.size(-1)) // HEAD_DIM_MULTIPLE) * HEAD_DIM_MULTIPLE
    dtype, scale = autocast_dtype(q.device) or q.dtype, q.size(-1) ** -0.5
    q, k, packed_v = (_widen(x.to(dtype), dim) for x in (q, k, v))
    if dtype.itemsize == 2 and dim <= MAX_HEAD_DIM:
        context, *_ = torch.ops.aten._flash_attention_forward(
            q, k, packed_v, query_layout.cu_seqlens, key_layout.cu_seqlens, query_layout.max_length,
            key_layout.max_length, dropout, causal, False, scale=scale,
        )  # fmt: skip
    else:
        q, k, packed_v = query_layout.to_nested(q), key_layout.to_nested(k), key_layout.to_nested(packed_v)
        nested = F.scaled_dot_product_attention(q, k, packed_v, None, dropout, is_causal=causal, scale=scale)
        context = nested.transpose(1, 2).values()
    return context.transpose(0, 1).unsqueeze(0)[..., : v.size(-1)]


def _widen(x: Tensor, dim: int) -> Tensor:
    """[1, H, M, d] -> [M, H, dim], with zeros after the first d"""
    x = x.squeeze(0).transpose(0, 1)
    return x if x.size(-1) == dim else F.pad(x, (0, dim - x.size(-1)))
