"""Attention as one sentence: scores = f(query, keys); weights = align(scores); context = weights @ values.

Shapes: B sentences, N = B*K rows (K hypotheses a sentence), H heads, T queries, S keys.
Masks are bool, True where a query may look, and broadcast to [B, H, T, S].
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.attention.align import Global
from seq2attn.attention.scores import Dot, MultiHead, Score, split_heads


@dataclass(frozen=True)
class Memory:
    """Keys and values, projected once, and where they may be looked at."""

    keys: Tensor  # [B, H, S, d]
    values: Tensor  # [B, H, S, v]
    mask: Tensor  # [B, 1, 1, S] or [1, 1, T, S] bool


Memories = tuple[Memory, ...]
"""All that a decoder asks of one batch of sources: one `Memory` for each of its attentions."""


class Attention(nn.Module):
    """A score, an alignment, and what is done to the values."""

    def __init__(
        self,
        score: Score,
        align: Global | None = None,
        *,
        value: nn.Module | None = None,
        output: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.score = score
        self.align = align or Global()
        self.value = value or nn.Identity()
        self.output = output or nn.Identity()
        self.dropout = nn.Dropout(dropout)

    def project(self, keys: Tensor, values: Tensor, mask: Tensor) -> Memory:
        """[B, S, Dk], [B, S, Dv], bool [B, S] -> the memory that all later queries share."""
        heads = self.score.heads
        return Memory(self.score.key(keys), split_heads(self.value(values), heads), mask[:, None, None, :])

    def forward(
        self, query: Tensor, memory: Memory, position: Tensor, *, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """query [N, T, Dq], position [N, T] -> context [N, T, Dv], and weights [N, H, T, S] when they are needed.

        N is B, or B*K when K hypotheses share a sentence: they are then so many more queries to it, and its keys and
        values are neither copied nor reordered.
        """
        rows, steps, _ = query.shape
        sentences = memory.keys.size(0)
        query, position = query.reshape(sentences, -1, query.size(-1)), position.reshape(sentences, -1)
        q = self.score.query(query)
        weights = None
        if self._fused() and not need_weights:
            drop = self.dropout.p if self.training else 0.0
            context = F.scaled_dot_product_attention(q, memory.keys, memory.values, memory.mask, drop)
        else:
            weights = self.align(self.score(q, memory.keys), memory.mask, query, position)
            context = self.dropout(weights) @ memory.values
        context = self.output(context.transpose(1, 2).flatten(2)).reshape(rows, steps, -1)
        if weights is None or not need_weights:
            return context, None
        heads, keys = weights.size(1), weights.size(-1)
        return context, weights.transpose(1, 2).reshape(rows, steps, heads, keys).transpose(1, 2)

    def _fused(self) -> bool:
        """Whether PyTorch's own kernel computes the same function."""
        return isinstance(self.score, Dot) and self.score.scaled and type(self.align) is Global


def multi_head(dim: int, heads: int, dropout: float = 0.0) -> Attention:
    """Multi-head attention of equally wide queries, keys and values: Vaswani et al. 2017, section 3.2.2."""
    return Attention(
        MultiHead(dim, dim, heads), value=nn.Linear(dim, dim), output=nn.Linear(dim, dim), dropout=dropout
    )
