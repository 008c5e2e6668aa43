"""Attention: scores = score(query, keys); weights = align(scores); context = weights @ values.

Shapes: B sentences, N = B*K rows (K hypotheses a sentence), H heads, T queries, S keys.
Masks are bool, True where a query may attend to a key, and broadcast to [B, H, T, S].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.attention.align_functions import AlignmentFunction, GlobalAlignment
from seq2attn.attention.base import NO_STATE, AttentionComponent, AttentionState, QueryInfo
from seq2attn.attention.scores import DotScore, ScoreFunction, repeat_kv, split_heads, width_per_head
from seq2attn.nn.kernels.linear import Linear
from seq2attn.nn.kernels.varlen import varlen_attention
from seq2attn.nn.layers import Dropout
from seq2attn.nn.packing import SequenceLayout

UNFUSED_MAX_SCORES = 64 * 64
"""Queries times keys of a sentence up to which training on a CPU is faster without the fused kernel."""


@dataclass(frozen=True)
class Memory:
    """Projected keys and values of a batch, and their mask."""

    keys: Tensor  # [B, G, S, d]: G heads of keys and values, usually H
    values: Tensor  # [B, G, S, v]
    mask: Tensor | None  # [B, 1, 1, S] or [B or 1, 1, T, S] bool; None: no mask
    layout: SequenceLayout | None = None  # of sentences that are packed in one row (padding-free)
    bias: Tensor | None = None  # [B or 1, H, T, S], added to the scores; minus infinity where the mask is False


Memories = tuple[Memory, ...]
"""One `Memory` for each attention of a decoder."""


class AttentionOutput(NamedTuple):
    """Output of an attention call."""

    context: Tensor  # [N, T, Dv]
    state: AttentionState  # after the last query
    weights: Tensor | None  # [N, H, T, S], if `need_weights`
    sample_log_prob: Tensor | None  # [N, T]: weighted log-probability of hard attention's samples


class Attention(nn.Module):
    """A score function, an alignment function, and optional projections of the values and the context."""

    def __init__(
        self,
        score: ScoreFunction,
        align: AlignmentFunction | None = None,
        *,
        projection: tuple[int, int] | None = None,
        dropout: float = 0.0,
    ) -> None:
        """`projection`: widths of the values and of the context; None: neither is projected."""
        super().__init__()
        self.score = score
        self.alignment = align or GlobalAlignment()
        self.value_proj: nn.Module = nn.Identity()
        self.output_proj: nn.Module = nn.Identity()
        if projection is not None:
            value_dim, output_dim = projection
            width = score.value_dim or width_per_head(output_dim, score.heads)
            self.value_proj = Linear(value_dim, width * score.kv_heads, score.has_bias)
            self.output_proj = Linear(width * score.heads, output_dim, score.has_bias)
        self.dropout = Dropout(dropout)

    def project_memory(
        self,
        keys: Tensor,
        values: Tensor,
        mask: Tensor,
        layout: SequenceLayout | None = None,
        bias: Tensor | None = None,
    ) -> Memory:
        """[B, S, Dk], [B, S, Dv], bool [B, S] -> the memory for all queries; `layout`: of packed sentences."""
        if layout is None:
            position = torch.arange(keys.size(1), device=keys.device).expand(keys.shape[:2])
        else:
            position = layout.positions
        return Memory(*self.project_keys_values(keys, values, position), mask[:, None, None, :], layout, bias)

    def project_keys_values(self, keys: Tensor, values: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        """[B, S, Dk], [B, S, Dv], at positions [B, S] -> projected, [B, G, S, d] and [B, G, S, v]"""
        return self.score.project_key(keys, position), split_heads(self.value_proj(values), self.score.kv_heads)

    def initial_state(self, memory: Memory) -> AttentionState:
        """State before the first target token."""
        if not (self.score.has_state or self.alignment.has_state):
            return NO_STATE
        sentences, _, keys, _ = memory.values.shape
        dtype = torch.promote_types(memory.values.dtype, torch.float32)
        zeros = memory.values.new_zeros(sentences, self.score.heads, keys, dtype=dtype)
        return self.score.initial_state(zeros), self.alignment.initial_state(zeros)

    def forward(
        self,
        query: Tensor,
        memory: Memory,
        position: Tensor,
        state: AttentionState = NO_STATE,
        *,
        causal: bool = False,
        need_weights: bool = False,
        layout: SequenceLayout | None = None,
    ) -> AttentionOutput:
        """query [N, T, Dq], position [N, T], `state` before them -> the context [N, T, Dv] of each query.

        `causal`: query t attends to keys 0..t; there are as many keys as queries, and the memory has no mask.
        `layout`: of packed target sentences; see `supports_padding_free`.

        N is B, or B*K in beam search: the K hypotheses of a sentence are then K times as many queries, and its keys
        and values are neither copied nor reordered. With a state the queries are computed one after the other.
        """
        if layout is not None:
            return self._attend_varlen(query, memory, position, layout, causal=causal)
        if all(part is None for part in state):
            return self._attend(query, memory, position, state, causal=causal, need_weights=need_weights)
        steps: list[AttentionOutput] = []
        for q, p in zip(query.split(1, 1), position.split(1, 1), strict=True):
            steps.append(self._attend(q, memory, p, state, need_weights=need_weights))
            state = steps[-1].state
        return concat_steps(steps)

    def _attend(
        self,
        query: Tensor,
        memory: Memory,
        position: Tensor,
        state: AttentionState,
        *,
        causal: bool = False,
        need_weights: bool,
    ) -> AttentionOutput:
        """All queries in one call; a single query if there is a state."""
        rows, steps, _ = query.shape
        sentences = memory.keys.size(0)
        query, position = query.reshape(sentences, -1, query.size(-1)), position.reshape(sentences, -1)
        score_state, alignment_state = (None if x is None else fold_beams(x, sentences) for x in state)
        q = self.score.project_query(query, position)
        info = QueryInfo(query, position, score_state, memory.mask)
        weights = expected = sample_log_prob = None
        if self._uses_sdpa() and not need_weights and not prefers_unfused(q, memory.keys):
            context = self._sdpa(q, memory, info, causal=causal)
        else:
            scores = self.score(q, memory.keys, info)
            scores = scores if memory.bias is None else scores + memory.bias
            mask = expand_mask(memory, query.size(1), causal=causal)
            weights = self.alignment(scores, mask, QueryInfo(query, position, alignment_state))
            expected = self.alignment.expected_weights(scores, mask, weights) if need_weights else None
            sample_log_prob = self.alignment.sample_log_prob(scores, mask, weights)
            values = repeat_kv(memory.values, self.score.heads)
            context = self.dropout(weights).to(values.dtype) @ values
        context = self.output_proj(context.transpose(1, 2).flatten(2)).reshape(rows, steps, -1)
        return AttentionOutput(
            context,
            state if weights is None else self._update_state(state, weights),
            None if expected is None else unfold_beams(expected, rows),
            None if sample_log_prob is None else sample_log_prob.sum(1).reshape(rows, steps),
        )

    def _attend_varlen(
        self, query: Tensor, memory: Memory, position: Tensor, layout: SequenceLayout, *, causal: bool
    ) -> AttentionOutput:
        """All queries [1, M, Dq] of packed sentences, each to its own sentence."""
        assert self.supports_padding_free and memory.layout is not None
        q, heads = self.score.project_query(query, position), self.score.heads
        keys, values = repeat_kv(memory.keys, heads), repeat_kv(memory.values, heads)
        dropout, padded = self.dropout.effective_p(), q.device.type == "cpu"
        context = varlen_attention(
            q, keys, values, layout, memory.layout, causal=causal, bias=memory.bias, dropout=dropout, padded=padded
        )
        return AttentionOutput(self.output_proj(context.transpose(1, 2).flatten(2)), NO_STATE, None, None)

    @property
    def supports_padding_free(self) -> bool:
        """True if packed sentences are supported: PyTorch's kernel computes the whole function."""
        return isinstance(self.score, DotScore) and self._uses_sdpa() and type(self.score).bias is DotScore.bias

    def _sdpa(self, q: Tensor, memory: Memory, info: QueryInfo, *, causal: bool) -> Tensor:
        """The context [B, H, T, v] by `scaled_dot_product_attention`, which returns no weights."""
        assert isinstance(self.score, DotScore)
        mask, bias = memory.mask, self.score.bias(q, memory.keys, info)
        if bias is not None:
            if mask is not None or causal:
                bias = bias.masked_fill(~expand_mask(memory, q.size(2), causal=causal), -torch.inf)
            mask, causal = bias, False
        elif memory.bias is not None:
            mask, causal = memory.bias.to(q.dtype), False
        dropout, keys, values = self.dropout.effective_p(), memory.keys, memory.values
        is_grouped = self.score.kv_heads < self.score.heads
        if is_grouped and mask is not None and q.device.type != "cpu":
            return attend_in_groups(q, keys, values, mask, dropout)
        return F.scaled_dot_product_attention(q, keys, values, mask, dropout, is_causal=causal, enable_gqa=is_grouped)

    def _update_state(self, state: AttentionState, weights: Tensor) -> AttentionState:
        """State and weights [B, H, K, S] of one query of each row -> the next state."""
        components: tuple[AttentionComponent, ...] = (self.score, self.alignment)
        score_state, alignment_state = (
            None if x is None else component.update_state(x, unfold_beams(weights, x.size(0)).squeeze(2))
            for component, x in zip(components, state, strict=True)
        )
        return score_state, alignment_state

    def _uses_sdpa(self) -> bool:
        """True if `scaled_dot_product_attention` computes the same function."""
        score, is_global = self.score, type(self.alignment) is GlobalAlignment
        is_dot = isinstance(score, DotScore) and type(score).forward is DotScore.forward and score.scaled
        return is_dot and is_global and not score.has_state  # which needs the weights


def expand_mask(memory: Memory, queries: int, *, causal: bool) -> Tensor:
    """The mask of the memory; of ones, or lower triangular if `causal`, where it has none."""
    if memory.mask is not None:
        return memory.mask
    keys = memory.keys.size(2)
    mask = torch.ones(1, 1, queries, keys, dtype=torch.bool, device=memory.keys.device)
    return mask.tril() if causal else mask


def prefers_unfused(q: Tensor, k: Tensor) -> bool:
    """True for training on a CPU with few scores, where plain matrix products are faster than the fused kernel."""
    return q.device.type == "cpu" and torch.is_grad_enabled() and q.size(2) * k.size(2) <= UNFUSED_MAX_SCORES


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


def fold_beams(state: Tensor, sentences: int) -> Tensor:
    """[B*K, H, S] -> [B, H, K, S]: the states of hypotheses, as queries to their sentence"""
    return state.unflatten(0, (sentences, -1)).transpose(1, 2)


def unfold_beams(weights: Tensor, rows: int) -> Tensor:
    """[B, H, K*T, S] -> [B*K, H, T, S]"""
    return weights.unflatten(2, (rows // weights.size(0), -1)).transpose(1, 2).flatten(0, 1)


def concat_steps(steps: list[AttentionOutput]) -> AttentionOutput:
    """Concatenation of the outputs of single queries, along the time dimension."""
    weights = [step.weights for step in steps if step.weights is not None]
    sample_log_prob = [step.sample_log_prob for step in steps if step.sample_log_prob is not None]
    return AttentionOutput(
        torch.cat([step.context for step in steps], 1),
        steps[-1].state,
        torch.cat(weights, 2) if weights else None,
        torch.cat(sample_log_prob, 1) if sample_log_prob else None,
    )
