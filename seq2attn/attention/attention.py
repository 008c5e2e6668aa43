"""Attention: scores = score(query, keys); weights = align(scores); context = weights @ values.

Shapes: B sentences, N = B*K rows (K hypotheses a sentence), H heads, G heads of keys and values, T queries, S keys,
d and v the widths of a head. Masks are bool, True where a query may attend to a key, and broadcast to [B, H, T, S].
"""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor, nn

from seq2attn.attention.align_functions import AlignmentFunction, GlobalAlignment
from seq2attn.attention.base import NO_STATE, AttentionState, Memory, QueryInfo
from seq2attn.attention.dispatch import expand_mask, fusable_score, fused_context, prefers_unfused, varlen_context
from seq2attn.attention.scores import ScoreFunction
from seq2attn.nn.kernels.linear import Linear
from seq2attn.nn.layers import Dropout, repeat_kv, split_heads, width_per_head
from seq2attn.nn.packing import SequenceLayout


class ValueProjection(NamedTuple):
    """Widths of the projections of the values and of the context."""

    value_dim: int
    output_dim: int
    head_dim: int | None = None  # None: the width of the output, divided by the heads
    bias: bool = True


class AttentionOutput(NamedTuple):
    """Output of an attention call."""

    context: Tensor  # [N, T, Dv]
    state: AttentionState  # after the last query
    weights: Tensor | None = None  # [N, H, T, S], if `need_weights`
    sample_log_prob: Tensor | None = None  # [N, T]: weighted log-probability of hard attention's samples


class Attention(nn.Module):
    """A score function, an alignment function, and optional projections of the values and the context."""

    def __init__(
        self,
        score: ScoreFunction,
        align: AlignmentFunction | None = None,
        *,
        projection: ValueProjection | None = None,
        dropout: float = 0.0,
    ) -> None:
        """Without a `projection` neither values nor context are projected."""
        super().__init__()
        self.score = score
        self.alignment = align or GlobalAlignment()
        self.value_proj: nn.Module = nn.Identity()
        self.output_proj: nn.Module = nn.Identity()
        if projection is not None:
            value_dim, output_dim, head_dim, bias = projection
            width = head_dim or width_per_head(output_dim, score.heads)
            self.value_proj = Linear(value_dim, width * score.kv_heads, bias)
            self.output_proj = Linear(width * score.heads, output_dim, bias)
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
        components = self.score, self.alignment
        if not any(component.has_state for component in components):
            return NO_STATE
        sentences, _, keys, _ = memory.values.shape
        dtype = torch.promote_types(memory.values.dtype, torch.float32)
        zeros = memory.values.new_zeros(sentences, self.score.heads, keys, dtype=dtype)
        return tuple(component.initial_state(zeros) if component.has_state else None for component in components)

    @property
    def supports_padding_free(self) -> bool:
        """True if packed sentences are supported: PyTorch's kernel computes the whole function."""
        score = fusable_score(self.score, self.alignment)
        return score is not None and score.relative_embedding is None

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
            assert self.supports_padding_free
            q = self.score.project_query(query, position)  # [1, M, Dq] -> [1, H, M, d]
            context = varlen_context(q, memory, layout, causal=causal, dropout=self.dropout.effective_p())
            return AttentionOutput(self._join_heads(context, query), NO_STATE)
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
        rows, sentences = query.size(0), memory.keys.size(0)
        folded = query.reshape(sentences, -1, query.size(-1))  # [B*K, T, Dq] -> [B, K*T, Dq]
        folded_position = position.reshape(sentences, -1)  # [B*K, T] -> [B, K*T]
        states = (None if part is None else fold_beams(part, sentences) for part in state)
        info = QueryInfo(folded, folded_position, memory.mask, *states)
        q = self.score.project_query(folded, folded_position)  # [B, K*T, Dq] -> [B, H, K*T, d]
        dot_score = fusable_score(self.score, self.alignment)
        if dot_score is not None and not need_weights and not prefers_unfused(q, memory.keys):
            dropout = self.dropout.effective_p()
            context = fused_context(dot_score, q, memory, info, causal=causal, dropout=dropout)
            return AttentionOutput(self._join_heads(context, query), state)
        scores = self.score(q, memory.keys, info)  # [B, H, K*T, S]
        scores = scores if memory.bias is None else scores + memory.bias
        mask = expand_mask(memory, folded.size(1), causal=causal)
        weights = self.alignment(scores, mask, info)  # [B, H, K*T, S]
        expected = self.alignment.expected_weights(scores, mask, weights) if need_weights else None
        sample_log_prob = self.alignment.sample_log_prob(scores, mask, weights)
        values = repeat_kv(memory.values, self.score.heads)  # [B, G, S, v] -> [B, H, S, v]
        context = self.dropout(weights).to(values.dtype) @ values  # [B, H, K*T, v]
        return AttentionOutput(
            self._join_heads(context, query),
            self._update_state(state, weights),
            None if expected is None else unfold_beams(expected, rows),
            None if sample_log_prob is None else sample_log_prob.sum(1).reshape(query.shape[:2]),
        )

    def _join_heads(self, context: Tensor, query: Tensor) -> Tensor:
        """Context [B, H, K*T, v] of `query` [B*K, T, Dq] -> [B*K, T, Dv]"""
        return self.output_proj(context.transpose(1, 2).flatten(2)).reshape(*query.shape[:2], -1)

    def _update_state(self, state: AttentionState, weights: Tensor) -> AttentionState:
        """State and weights [B, H, K, S] of one query of each row -> the next state."""
        return tuple(
            part if part is None else component.update_state(part, unfold_beams(weights, part.size(0)).squeeze(2))
            for component, part in zip((self.score, self.alignment), state, strict=True)
        )


def fold_beams(state: Tensor, sentences: int) -> Tensor:
    """[B*K, H, S] -> [B, H, K, S]: the states of hypotheses, as queries to their sentence"""
    return state.unflatten(0, (sentences, -1)).transpose(1, 2)


def unfold_beams(weights: Tensor, rows: int) -> Tensor:
    """[B, H, K*T, S] -> [B*K, H, T, S]"""
    return weights.unflatten(2, (rows // weights.size(0), -1)).transpose(1, 2).flatten(0, 1)


def concat_steps(steps: Sequence[AttentionOutput]) -> AttentionOutput:
    """Concatenation of the outputs of single queries, along the time dimension."""
    weights = [step.weights for step in steps if step.weights is not None]
    sample_log_prob = [step.sample_log_prob for step in steps if step.sample_log_prob is not None]
    return AttentionOutput(
        torch.cat([step.context for step in steps], 1),
        steps[-1].state,
        torch.cat(weights, 2) if weights else None,
        torch.cat(sample_log_prob, 1) if sample_log_prob else None,
    )


def stack_layers(outputs: Sequence[AttentionOutput]) -> tuple[Tensor | None, Tensor | None]:
    """The weights [N, L, H, T, S] of L layers, and the sum of their sample log-probabilities [N, T]."""
    weights = [layer.weights for layer in outputs if layer.weights is not None]
    log_probs = [layer.sample_log_prob for layer in outputs if layer.sample_log_prob is not None]
    return torch.stack(weights, 1) if weights else None, reduce(torch.add, log_probs) if log_probs else None
