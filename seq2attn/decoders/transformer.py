"""Transformer decoder: causal self-attention and cross-attention (Vaswani et al. 2017, section 3.1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Generic, Protocol, TypeVar, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from seq2attn.attention.attention import Attention, AttentionOutput, stack_layers
from seq2attn.attention.attention_config import AttentionConfig, default_score
from seq2attn.attention.base import AttentionState, Memories, Memory, Width
from seq2attn.config.base import FieldError
from seq2attn.decoders.base import AttentionDecoderBaseConfig, Decoder, DecoderOutput
from seq2attn.decoders.kv_cache import CachedLayer, KVCache
from seq2attn.encoders.base import Encoder, EncoderOutput
from seq2attn.encoders.transformer import TransformerConfig, TransformerLayersConfig
from seq2attn.nn.initialization import initialize_parameters
from seq2attn.nn.layers import Dropout, LayerDrop, ResidualConnection, next_positions
from seq2attn.nn.packing import SequenceLayout

Cached = TypeVar("Cached")
"""The part of one layer in a cache: a `CachedLayer`, or the cell of an SSRU."""


class TargetCache(Protocol[Cached]):
    """A KV cache, which the hypotheses of a sentence share, or the cells of all SSRUs."""

    def extend(self, steps: int) -> Sequence[Cached]:
        """The part of each layer, to be updated with `steps` tokens of each row."""

    def finish(self, layers: Sequence[Cached]) -> TargetCache[Cached]:
        """The cache after the update of all layers."""


@dataclass(frozen=True)
class TransformerDecoderState(Generic[Cached]):
    """Cache and attention states after some target tokens."""

    cache: TargetCache[Cached]
    attention_states: tuple[AttentionState, ...]  # of the cross-attention of each layer
    position: Tensor  # [N]: number of decoded tokens


@dataclass(frozen=True)
class LayerContext:
    """Information about the target tokens beyond their vectors, for all layers."""

    position: Tensor  # [N, T]
    layout: SequenceLayout | None  # of packed sentences
    need_weights: bool
    bias: Tensor | None  # [B or 1, H, K*T, C + K*T]: of the scores of the self-attention


class DecoderLayer(nn.Module, ABC, Generic[Cached]):
    """A layer over the target tokens, cross-attention and feed-forward, each with a residual connection."""

    cross_attention: Attention
    cross_attention_residual: ResidualConnection
    feed_forward: nn.Module
    feed_forward_residual: ResidualConnection

    @abstractmethod
    def attend_target(self, x: Tensor, cached: Cached, context: LayerContext) -> tuple[Tensor, Cached, Tensor | None]:
        """Layer over the target tokens: x [N, T, D] -> [N, T, D], its part of the cache, and weights [N, H, T, T]

        The weights are those of a self-attention over a whole target, if needed.
        """

    def forward(
        self, x: Tensor, cached: Cached, memory: Memory, attention_state: AttentionState, context: LayerContext
    ) -> tuple[Tensor, Cached, AttentionOutput, Tensor | None]:
        """x [N, T, D] -> [N, T, D], the part of the cache, the output of the cross-attention, and self-attention"""
        x, cached, weights = self.attend_target(x, cached, context)
        y, need_weights = self.cross_attention_residual.sublayer_input(x), context.need_weights
        output = self.cross_attention(
            y, memory, context.position, attention_state, need_weights=need_weights, layout=context.layout
        )
        x = self.cross_attention_residual.add_output(x, output.context)
        x = self.feed_forward_residual.add_output(x, self.feed_forward(self.feed_forward_residual.sublayer_input(x)))
        return x, cached, output, weights


class TransformerDecoderLayer(DecoderLayer[CachedLayer]):
    """Causal self-attention, cross-attention and feed-forward, each with a residual connection."""

    def __init__(self, config: TransformerDecoderConfig, dim: int, encoder: Encoder) -> None:
        super().__init__()
        self.self_attention = config.build_self_attention(dim)
        self.self_attention_residual = config.build_residual(dim)
        self.cross_attention = config.attention.build(dim, encoder.key_dim, encoder.value_dim, dim)
        self.cross_attention_residual = config.build_residual(dim)
        self.feed_forward = config.build_feed_forward(dim)
        self.feed_forward_residual = config.build_residual(dim)

    def attend_target(
        self, x: Tensor, cached: CachedLayer, context: LayerContext
    ) -> tuple[Tensor, CachedLayer, Tensor | None]:
        """Causal self-attention: x [N, T, D] -> [N, T, D], and all keys and values, with those of the new tokens"""
        y, position, layout = self.self_attention_residual.sublayer_input(x), context.position, context.layout
        sentences = cached.entries[0].size(0)
        tokens, positions = y.reshape(sentences, -1, y.size(-1)), position.reshape(sentences, -1)
        cached = cached.append(self.self_attention.project_keys_values(tokens, tokens, positions))
        target = Memory(*cached.entries, cached.mask, layout, context.bias)
        # Of a whole target only, and not in training, where guided alignment needs the cross-attention alone.
        need_weights = context.need_weights and cached.causal and not self.training
        output = self.self_attention(
            y, target, position, causal=cached.causal, need_weights=need_weights, layout=layout
        )
        return self.self_attention_residual.add_output(x, output.context), cached, output.weights


class TransformerDecoder(Decoder[TransformerDecoderState[Cached]], Generic[Cached]):
    """Layers over the target tokens, cross-attention and feed-forward over embeddings with positions."""

    def __init__(
        self,
        config: TransformerLayersConfig,
        dim: int,
        build_layer: Callable[[], DecoderLayer[Cached]],
        build_cache: Callable[[Tensor, int], TargetCache[Cached]],
    ) -> None:
        """`build_cache`: a cache of no tokens, for the keys [B, S, Dk] of an encoder and a number of layers."""
        super().__init__()
        self.position_encoding = config.build_position_encoding(dim)
        self.position_bias = config.build_position_bias(bidirectional=False)
        self.embedding_norm = config.build_embedding_norm(dim)
        self.dropout = Dropout(config.dropout)
        self.layer_drop = LayerDrop(config.layer_dropout)
        layers = nn.ModuleList(build_layer() for _ in range(config.layers))
        self.layers = cast("list[DecoderLayer[Cached]]", layers)
        self.norm = config.build_final_norm(dim)
        self.dim = dim
        self.build_cache = build_cache
        initialize_parameters(self)

    def init_state(self, encoded: EncoderOutput) -> tuple[Memories, TransformerDecoderState[Cached]]:
        """Projected source for every layer, and a state with an empty cache."""
        attentions = [layer.cross_attention for layer in self.layers]
        source = encoded.keys, encoded.values, encoded.mask, encoded.layout
        memories = tuple(attention.project_memory(*source) for attention in attentions)
        states = tuple(attention.initial_state(memory) for attention, memory in zip(attentions, memories, strict=True))
        position = encoded.mask.new_zeros(encoded.mask.size(0), dtype=torch.long)
        cache = self.build_cache(encoded.keys, len(self.layers))
        return memories, TransformerDecoderState(cache, states, position)

    def forward(
        self,
        embedded: Tensor,
        state: TransformerDecoderState[Cached],
        memory: Memories,
        *,
        need_weights: bool = False,
        layout: SequenceLayout | None = None,
    ) -> DecoderOutput:
        """embedded [N, T, D], in one call

        `layout`: of whole target sentences that are packed in one row, as those of the memory are; the state must be
        initial, and cannot be used afterwards.
        """
        position = next_positions(state.position, embedded) if layout is None else layout.positions
        x = self.dropout(self.embedding_norm(embedded + self.position_encoding(position).to(embedded.dtype)))
        layer_caches = state.cache.extend(embedded.size(1))
        bias = self._self_attention_bias(layer_caches[0], position, layout)
        context = LayerContext(position, layout, need_weights, bias)
        kept: list[Cached] = []
        outputs: list[AttentionOutput] = []
        self_attention: list[Tensor] = []
        parts = zip(self.layers, layer_caches, memory, state.attention_states, strict=True)
        for layer, cached, layer_memory, attention_state in parts:
            y, cached, output, weights = layer(x, cached, layer_memory, attention_state, context)
            x, log_prob = self.layer_drop(x, y, output.sample_log_prob)
            kept.append(cached)
            outputs.append(output._replace(sample_log_prob=log_prob))
            self_attention += [] if weights is None else [weights]
        attention_states = tuple(output.state for output in outputs)
        cache, position = state.cache.finish(kept), state.position + embedded.size(1)
        new_state = TransformerDecoderState(cache, attention_states, position)
        stacked = torch.stack(self_attention, 1) if self_attention else None
        return DecoderOutput(self.norm(x), new_state, *stack_layers(outputs), stacked)

    def _self_attention_bias(self, cached: Cached, position: Tensor, layout: SequenceLayout | None) -> Tensor | None:
        """[B or 1, H, K*T, C + K*T], of padded sentences; None without relative-bias positions"""
        if self.position_bias is None:
            return None
        assert isinstance(cached, CachedLayer), "only self-attention has such positions"
        sentences, _, entries, _ = cached.entries[0].shape
        position = position.reshape(sentences, -1)
        if layout is not None:
            position = torch.arange(layout.max_length, device=position.device)[None]
        mask, steps = cached.mask, position.size(1)
        if mask is None:  # all sentences have the same positions
            mask = torch.ones(steps, entries + steps, dtype=torch.bool, device=position.device)
            mask = mask.tril(entries)[None, None]
        return self.position_bias(position[: mask.size(0)], mask)


class TransformerDecoderConfig(TransformerConfig, AttentionDecoderBaseConfig):
    """Transformer decoder, of the width of the target embeddings."""

    attention: Annotated[AttentionConfig, default_score({"kind": "multi-head"}, "heads")] = Field(
        {}, validate_default=True
    )
    """Cross-attention of each layer; values are projected to the width of the decoder. Default of `score`: multi-head,
    with as many heads as the self-attention."""

    def check_widths(self, query: Width, key: Width | None) -> list[FieldError]:
        """Errors of widths that do not fit; None: that of a plug-in."""
        return [*self.check_self_attention(query), *super().check_widths(query, key)]

    def build(self, input_dim: int, encoder: Encoder) -> TransformerDecoder[CachedLayer]:
        """Raises ValueError when the heads do not divide `input_dim`."""
        build_layer = partial(TransformerDecoderLayer, self, input_dim, encoder)
        return TransformerDecoder(self, input_dim, build_layer, partial(self.build_cache, input_dim))

    def build_cache(self, dim: int, like: Tensor, layers: int) -> KVCache:
        """Empty keys and values of each layer, two of [B, G, 0, d], for the keys [B, S, Dk] of an encoder."""
        empty = like.new_empty(like.size(0), self.kv_heads or self.heads, 0, self.head_dim or dim // self.heads)
        return KVCache(((empty, empty),) * layers)
