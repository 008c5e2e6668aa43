"""Attention as one sentence: scores = f(query, keys); weights = align(scores); context = weights @ values.

Shapes: B sentences, N = B*K rows (K hypotheses a sentence), H heads, T queries, S keys.
Masks are bool, True where a query may look, and broadcast to [B, H, T, S].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.attention.alignment import AlignmentFunction, GlobalAlignment
from seq2attn.attention.base import NO_STATE, AttentionState, QueryInfo
from seq2attn.attention.scores import DotScore, ScoreFunction, repeat_kv, split_heads
from seq2attn.nn.dropout import Dropout
from seq2attn.nn.linear import Linear
from seq2attn.nn.varlen import SequenceLayout, varlen_attention

UNFUSED_MAX_SCORES = 64 * 64
"""Queries times keys of a sentence up to which a CPU learns sooner from plain products than from the fused kernel."""


@dataclass(frozen=True)
class Memory:
    """Keys and values, projected once, and where they may be looked at."""

    keys: Tensor  # [B, G, S, d], of as many groups as heads in most scores
    values: Tensor  # [B, G, S, v]
    mask: Tensor | None  # [B, 1, 1, S] or [B or 1, 1, T, S] bool; None where all may be looked at
    layout: SequenceLayout | None = (
        None  # where the sentences lie of which these are, if they all lie in one row
    )


Memories = tuple[Memory, ...]
"""All that a decoder asks of one batch of sources: one `Memory` for each of its attentions."""


class AttentionOutput(NamedTuple):
    """What asking gives."""

    context: Tensor  # [N, T, Dv]
    state: AttentionState  # what score and alignment remember after the last query
    weights: Tensor | None  # [N, H, T, S], when they are asked for
    sample_log_prob: (
        Tensor | None
    )  # [N, T]: the weighted log-probability of what hard attention drew, in training


class Attention(nn.Module):
    """A score, an alignment, and what is done to the values."""

    def __init__(
        self,
        score: ScoreFunction,
        align: AlignmentFunction | None = None,
        *,
        value: nn.Module | None = None,
        output: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.score = score
        self.alignment = align or GlobalAlignment()
        self.value_proj = value or nn.Identity()
        self.output_proj = output or nn.Identity()
        self.dropout = Dropout(dropout)

    def project_memory(
        self, keys: Tensor, values: Tensor, mask: Tensor, spans: SequenceLayout | None = None
    ) -> Memory:
        """[B, S, Dk], [B, S, Dv], bool [B, S] -> the memory that all later queries share.

        `spans` tells of sentences that lie in one row.
        """
        if spans is None:
            position = torch.arange(keys.size(1), device=keys.device).expand(keys.shape[:2])
        else:
            position = spans.positions
        return Memory(*self.project_keys_values(keys, values, position), mask[:, None, None, :], spans)

    def project_keys_values(self, keys: Tensor, values: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        """[B, S, Dk], [B, S, Dv], at positions [B, S] -> projected, [B, G, S, d] and [B, G, S, v]"""
        return self.score.project_key(keys, position), split_heads(
            self.value_proj(values), self.score.kv_heads
        )

    def initial_state(self, memory: Memory) -> AttentionState:
        """What score and alignment remember before the first query of a target."""
        sentences, _, words, _ = memory.values.shape
        kind = torch.promote_types(memory.values.dtype, torch.float32)
        nowhere = memory.values.new_zeros(sentences, self.score.heads, words, dtype=kind)
        return self.score.initial_state(nowhere), self.alignment.initial_state(nowhere)

    def forward(
        self,
        query: Tensor,
        memory: Memory,
        position: Tensor,
        seen: AttentionState = NO_STATE,
        *,
        causal: bool = False,
        need_weights: bool = False,
        spans: SequenceLayout | None = None,
    ) -> AttentionOutput:
        """query [N, T, Dq], position [N, T], after what was `seen` -> the context [N, T, Dv] of each query.

        `causal`: there are as many keys as queries, and each looks at those up to its own; the memory has no mask.
        `spans`: the queries are of sentences that lie in one row, as those of the memory do; see `packs`.

        N is B, or B*K when K hypotheses share a sentence: they are then so many more queries to it, and its keys and
        values are neither copied nor reordered. Where something is remembered the queries are asked one by one.
        """
        if spans is not None:
            return self._attend_varlen(query, memory, position, spans, causal=causal)
        if all(part is None for part in seen):
            return self._attend(query, memory, position, seen, causal=causal, need_weights=need_weights)
        steps: list[AttentionOutput] = []
        for q, p in zip(query.split(1, 1), position.split(1, 1), strict=True):
            steps.append(self._attend(q, memory, p, seen, need_weights=need_weights))
            seen = steps[-1].state
        return concat_steps(steps)

    def _attend(
        self,
        query: Tensor,
        memory: Memory,
        position: Tensor,
        seen: AttentionState,
        *,
        causal: bool = False,
        need_weights: bool,
    ) -> AttentionOutput:
        """All queries at once; of a part that remembers there is one."""
        rows, steps, _ = query.shape
        sentences = memory.keys.size(0)
        query, position = query.reshape(sentences, -1, query.size(-1)), position.reshape(sentences, -1)
        of_score, of_align = (None if x is None else fold_beams(x, sentences) for x in seen)
        q, asked = (
            self.score.project_query(query, position),
            QueryInfo(query, position, of_score, memory.mask),
        )
        weights = drawn = None
        if self._uses_sdpa() and not need_weights and not prefers_unfused(q, memory.keys):
            context = self._sdpa(q, memory, asked, causal=causal)
        else:
            scores, mask = (
                self.score(q, memory.keys, asked),
                expand_mask(memory, query.size(1), causal=causal),
            )
            weights = self.alignment(scores, mask, QueryInfo(query, position, of_align))
            drawn = self.alignment.sample_log_prob(scores, mask, weights)
            values = repeat_kv(memory.values, self.score.heads)
            context = self.dropout(weights).to(values.dtype) @ values
        context = self.output_proj(context.transpose(1, 2).flatten(2)).reshape(rows, steps, -1)
        return AttentionOutput(
            context,
            seen if weights is None else self._update_state(seen, weights),
            unfold_beams(weights, rows) if weights is not None and need_weights else None,
            None if drawn is None else drawn.sum(1).reshape(rows, steps),
        )

    def _attend_varlen(
        self, query: Tensor, memory: Memory, position: Tensor, spans: SequenceLayout, *, causal: bool
    ) -> AttentionOutput:
        """All queries [1, M, Dq] of sentences that lie in one row, each to its own sentence."""
        assert self.supports_padding_free and memory.layout is not None
        q, heads = self.score.project_query(query, position), self.score.heads
        keys, values = repeat_kv(memory.keys, heads), repeat_kv(memory.values, heads)
        context = varlen_attention(
            q,
            keys,
            values,
            spans,
            memory.layout,
            causal=causal,
            dropout=self.dropout.effective_p(),
            padded=q.device.type == "cpu",
        )
        return AttentionOutput(self.output_proj(context.transpose(1, 2).flatten(2)), NO_STATE, None, None)

    @property
    def supports_padding_free(self) -> bool:
        """Whether sentences that lie in one row can be asked: where PyTorch's kernel computes the whole function."""
        return (
            isinstance(self.score, DotScore) and self._uses_sdpa() and type(self.score).bias is DotScore.bias
        )

    def _sdpa(self, q: Tensor, memory: Memory, asked: QueryInfo, *, causal: bool) -> Tensor:
        """The context [B, H, T, v] by PyTorch's own kernel, which makes no weights."""
        assert isinstance(self.score, DotScore)
        mask, bias = memory.mask, self.score.bias(q, memory.keys, asked)
        if bias is not None:
            if mask is not None or causal:
                bias = bias.masked_fill(~expand_mask(memory, q.size(2), causal=causal), -torch.inf)
            mask, causal = bias, False
        dropout, keys, values = self.dropout.effective_p(), memory.keys, memory.values
        is_grouped = self.score.kv_heads < self.score.heads
        if is_grouped and mask is not None and q.device.type != "cpu":
            return attend_in_groups(q, keys, values, mask, dropout)
        return F.scaled_dot_product_attention(
            q, keys, values, mask, dropout, is_causal=causal, enable_gqa=is_grouped
        )

    def _update_state(self, seen: AttentionState, weights: Tensor) -> AttentionState:
        """`seen` and the weights [B, H, K, S] of one query of each row -> what is remembered after it."""
        of_score, of_align = seen
        if of_score is not None:
            of_score = self.score.update_state(of_score, unfold_beams(weights, of_score.size(0)).squeeze(2))
        if of_align is not None:
            of_align = self.alignment.update_state(
                of_align, unfold_beams(weights, of_align.size(0)).squeeze(2)
            )
        return of_score, of_align

    def _uses_sdpa(self) -> bool:
        """Whether PyTorch's own kernel computes the same function."""
        return (
            isinstance(self.score, DotScore) and self.score.scaled and type(self.alignment) is GlobalAlignment
        )


def expand_mask(memory: Memory, queries: int, *, causal: bool) -> Tensor:
    """The mask of the memory, written out where it has none."""
    if memory.mask is not None:
        return memory.mask
    keys = memory.keys.size(2)
    mask = torch.ones(1, 1, queries, keys, dtype=torch.bool, device=memory.keys.device)
    return mask.tril() if causal else mask


def prefers_unfused(q: Tensor, k: Tensor) -> bool:
    """Whether a CPU takes gradients of so few weights that it has them sooner from plain products."""
    return q.device.type == "cpu" and torch.is_grad_enabled() and q.size(2) * k.size(2) <= UNFUSED_MAX_SCORES


def attend_in_groups(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, dropout: float) -> Tensor:
    """[B, H, T, d], [B, G, S, d], [B, G, S, v], mask or bias [B or 1, H or 1, T or 1, S] -> the context [B, H, T, v].

    The heads of a group are so many more queries to its keys. PyTorch's kernels for cards take either heads that share
    keys or a mask; given both, it writes the weights out.
    """
    groups, heads = k.size(1), q.size(1)
    if mask.size(1) * mask.size(2) > 1:
        mask = mask.expand(-1, heads, q.size(2), -1).unflatten(1, (groups, -1)).flatten(2, 3)
    folded = q.unflatten(1, (groups, -1)).flatten(2, 3)
    context = F.scaled_dot_product_attention(folded, k, v, mask, dropout)
    return context.unflatten(2, (heads // groups, -1)).flatten(1, 2)


def fold_beams(seen: Tensor, sentences: int) -> Tensor:
    """[B*K, H, S] -> [B, H, K, S]: of each hypothesis what it remembers, as queries to its sentence"""
    return seen.unflatten(0, (sentences, -1)).transpose(1, 2)


def unfold_beams(weights: Tensor, rows: int) -> Tensor:
    """[B, H, K*T, S] -> [B*K, H, T, S]"""
    return weights.unflatten(2, (rows // weights.size(0), -1)).transpose(1, 2).flatten(0, 1)


def concat_steps(steps: list[AttentionOutput]) -> AttentionOutput:
    """What asking one query after the other gave, as if they had been asked at once."""
    weights = [step.weights for step in steps if step.weights is not None]
    drawn = [step.sample_log_prob for step in steps if step.sample_log_prob is not None]
    return AttentionOutput(
        torch.cat([step.context for step in steps], 1),
        steps[-1].state,
        torch.cat(weights, 2) if weights else None,
        torch.cat(drawn, 1) if drawn else None,
    )


def build_self_attention(dim: int, score: ScoreFunction, dropout: float = 0.0) -> Attention:
    """Attention of words `dim` wide to each other; values have the heads of the keys."""
    value = Linear(dim, dim // score.heads * score.kv_heads)
    return Attention(score, value=value, output=Linear(dim, dim), dropout=dropout)
