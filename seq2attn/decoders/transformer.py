"""Transformer decoder: causal self-attention and cross-attention (Vaswani et al. 2017, section 3.1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from seq2attn.attention.attention import Attention, AttentionOutput
from seq2attn.attention.attention_config import AttentionConfig, default_score
from seq2attn.attention.base import AttentionState, Memories, Memory
from seq2attn.decoders.base import Decoder, DecoderOutput, next_positions
from seq2attn.decoders.kv_cache import CacheUpdate, KeyValue, KVCache
from seq2attn.encoders.base import Encoder, EncoderOutput
from seq2attn.encoders.transformer import TransformerConfig, TransformerLayersConfig
from seq2attn.nn.initialization import initialize_parameters
from seq2attn.nn.layers import Dropout, LayerDrop
from seq2attn.nn.packing import SequenceLayout


@dataclass(frozen=True)
class TransformerDecoderState:
    """Cache and attention states after some target tokens."""

    cache: Any  # a KV cache, which the hypotheses of a sentence share, or the cells of SSRUs
    attention_states: tuple[AttentionState, ...]  # of the cross-attention of each layer
    position: Tensor  # [N]: number of decoded tokens


class CrossAttentionLayer(nn.Module, ABC):
    """A layer over the target tokens, cross-attention and feed-forward, each with a residual connection."""

    def build_cross_attention(self, config: TransformerLayersConfig, attention: Attention, dim: int) -> None:
        """Build the submodules of this class, after those of the subclass."""
        self.cross_attention = attention
        self.cross_attention_residual = config.build_residual(dim)
        self.feed_forward = config.build_feed_forward(dim)
        self.feed_forward_residual = config.build_residual(dim)

    @abstractmethod
    def empty_cache(self, like: Tensor) -> Any:
        """Cache of no tokens, for the keys [B, S, Dk] of an encoder."""

    @abstractmethod
    def attend_target(
        self, x: Tensor, update: Any, index: int, position: Tensor, layout: SequenceLayout | None, bias: Tensor | None
    ) -> tuple[Tensor, Any]:
        """Layer over the target tokens: x [N, T, D] -> [N, T, D], and their part of the cache"""

    def forward(
        self,
        x: Tensor,
        update: Any,
        index: int,
        memory: Memory,
        attention_state: AttentionState,
        position: Tensor,
        layout: SequenceLayout | None,
        bias: Tensor | None,
        *,
        need_weights: bool,
    ) -> tuple[Tensor, Any, AttentionOutput]:
        """x [N, T, D] -> [N, T, D], the part of the cache, and the output of the cross-attention

        `index`: number of the layer in the `update` of the cache; `bias`: of the scores of the self-attention.
        """
        x, cached = self.attend_target(x, update, index, position, layout, bias)
        y = self.cross_attention_residual.sublayer_input(x)
        output = self.cross_attention(y, memory, position, attention_state, need_weights=need_weights, layout=layout)
        x = self.cross_attention_residual.add_output(x, output.context)
        x = self.feed_forward_residual.add_output(x, self.feed_forward(self.feed_forward_residual.sublayer_input(x)))
        return x, cached, output


class TransformerDecoderLayer(CrossAttentionLayer):
    """Causal self-attention, cross-attention and feed-forward, each with a residual connection."""

    def __init__(self, config: TransformerDecoderConfig, dim: int, encoder: Encoder) -> None:
        super().__init__()
        self.self_attention = config.build_self_attention(dim)
        self.self_attention_residual = config.build_residual(dim)
        self.build_cross_attention(config, config.attention.build(dim, encoder.key_dim, encoder.value_dim, dim), dim)
        self.kv_heads, self.head_dim = self.self_attention.score.kv_heads, config.head_dim or dim // config.heads

    def empty_cache(self, like: Tensor) -> KeyValue:
        """Empty keys and values: two of [B, G, 0, d]."""
        empty = like.new_empty(like.size(0), self.kv_heads, 0, self.head_dim)
        return empty, empty

    def attend_target(
        self,
        x: Tensor,
        update: CacheUpdate,
        index: int,
        position: Tensor,
        layout: SequenceLayout | None,
        bias: Tensor | None,
    ) -> tuple[Tensor, KeyValue]:
        """Causal self-attention: x [N, T, D] -> [N, T, D], and all keys and values, with those of the new tokens"""
        y = self.self_attention_residual.sublayer_input(x)
        sentences = update.old_layers[index][0].size(0)
        tokens, positions = y.reshape(sentences, -1, y.size(-1)), position.reshape(sentences, -1)
        new = self.self_attention.project_keys_values(tokens, tokens, positions)
        entries = update.update_layer(index, new)
        target = Memory(*entries, update.mask, layout, bias)
        output = self.self_attention(y, target, position, causal=update.causal, layout=layout)
        return self.self_attention_residual.add_output(x, output.context), entries


class TransformerDecoder(Decoder[TransformerDecoderState]):
    """Layers of self-attention, cross-attention and feed-forward over embeddings with positions."""

    layer_type: ClassVar[Any] = TransformerDecoderLayer
    cache_type: ClassVar[Any] = KVCache

    def __init__(self, config: TransformerLayersConfig, dim: int, encoder: Encoder) -> None:
        super().__init__()
        self.position_encoding = config.build_position_encoding(dim)
        self.position_bias = config.build_position_bias(bidirectional=False)
        self.embedding_norm = config.build_embedding_norm(dim)
        self.dropout, self.layer_drop = Dropout(config.dropout), LayerDrop(config.layer_dropout)
        layers = nn.ModuleList(self.layer_type(config, dim, encoder) for _ in range(config.layers))
        self.layers = cast("list[CrossAttentionLayer]", layers)
        self.norm = config.build_final_norm(dim)
        self.dim = dim
        initialize_parameters(self)

    def init_state(self, encoded: EncoderOutput) -> tuple[Memories, TransformerDecoderState]:
        """Projected source for every layer, and a state with an empty cache."""
        attentions = [layer.cross_attention for layer in self.layers]
        source = encoded.keys, encoded.values, encoded.mask, encoded.layout
        memory = tuple(attention.project_memory(*source) for attention in attentions)
        cache = self.cache_type(tuple(layer.empty_cache(encoded.keys) for layer in self.layers))
        attention_states = tuple(attention.initial_state(m) for attention, m in zip(attentions, memory, strict=True))
        position = encoded.mask.new_zeros(encoded.mask.size(0), dtype=torch.long)
        return memory, TransformerDecoderState(cache, attention_states, position)

    def forward(
        self,
        embedded: Tensor,
        state: TransformerDecoderState,
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
        update = state.cache.extend(embedded.size(1))
        bias = None if self.position_bias is None else self._position_bias(update, position, layout)
        cached: list[Any] = []
        outputs: list[AttentionOutput] = []
        for layer, source, attention_state in zip(self.layers, memory, state.attention_states, strict=True):
            y, new, output = layer(
                x, update, len(cached), source, attention_state, position, layout, bias, need_weights=need_weights
            )
            x, log_prob = self.layer_drop(x, y, output.sample_log_prob)
            cached.append(new)
            outputs.append(output._replace(sample_log_prob=log_prob))
        new_state = TransformerDecoderState(
            update.finish(cached), tuple(output.state for output in outputs), state.position + embedded.size(1)
        )
        return DecoderOutput.from_attentions(self.norm(x), new_state, outputs)

    def _position_bias(self, update: CacheUpdate, position: Tensor, layout: SequenceLayout | None) -> Tensor:
        """[B or 1, H, K*T, C + K*T], of padded sentences"""
        assert self.position_bias is not None
        sentences, _, entries, _ = update.old_layers[0][0].shape
        position = position.reshape(sentences, -1)
        if layout is not None:
            position = torch.arange(layout.max_length, device=position.device)[None]
        mask, steps = update.mask, position.size(1)
        if mask is None:  # all sentences have the same positions
            mask = torch.ones(steps, entries + steps, dtype=torch.bool, device=position.device)
            mask = mask.tril(entries)[None, None]
        bias: Tensor = self.position_bias(position[: mask.size(0)], mask)
        return bias


class TransformerDecoderConfig(TransformerConfig):
    """Transformer decoder, of the width of the target embeddings."""

    attention: Annotated[AttentionConfig, default_score({"kind": "multi-head"}, "heads")] = Field(
        {}, validate_default=True
    )
    """Cross-attention of each layer; values are projected to the width of the decoder. Default of `score`: multi-head,
    with as many heads as the self-attention."""

    def build(self, input_dim: int, encoder: Encoder) -> TransformerDecoder:
        """Raises ValueError when the heads do not divide `input_dim`."""
        return TransformerDecoder(self, input_dim, encoder)
