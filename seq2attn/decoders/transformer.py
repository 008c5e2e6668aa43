"""The Transformer decoder: causal self-attention and attention to the source (Vaswani et al. 2017, section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from seq2attn.attention import Attention, AttentionOutput, AttentionState, Memories, Memory
from seq2attn.attention.config import AttentionConfig
from seq2attn.attention.scores import MultiHeadScoreConfig
from seq2attn.decoders.base import Decoder, DecoderOutput, stack_layers, sum_sample_log_probs
from seq2attn.decoders.kv_cache import CacheUpdate, KeyValue, KVCache
from seq2attn.encoders.base import Encoder, EncoderOutput
from seq2attn.encoders.transformer import TransformerConfig
from seq2attn.nn.dropout import Dropout
from seq2attn.nn.initialization import initialize_parameters
from seq2attn.nn.varlen import SequenceLayout


@dataclass(frozen=True)
class TransformerDecoderState:
    """The keys and values of the words read so far."""

    kv_cache: KVCache  # which the hypotheses of a sentence share
    attention_states: tuple[AttentionState, ...]  # what each layer's attention to the source remembers
    position: Tensor  # [N]: words read


class TransformerDecoder(Decoder[TransformerDecoderState]):
    """Layers of self-attention, attention to the source and feed-forward over words with positions."""

    def __init__(self, config: TransformerDecoderConfig, dim: int, encoder: Encoder) -> None:
        super().__init__()
        self.position_encoding = config.build_position_encoding(dim)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(
            TransformerDecoderLayer(config, dim, encoder) for _ in range(config.layers)
        )
        self.norm = config.build_final_norm(dim)
        self.dim = dim
        initialize_parameters(self)

    def init_state(self, encoded: EncoderOutput) -> tuple[Memories, TransformerDecoderState]:
        """The source projected for every layer, and a state without a past."""
        layers = self._layers()
        memory = tuple(
            layer.cross_attention.project_memory(encoded.keys, encoded.values, encoded.mask, encoded.layout)
            for layer in layers
        )
        past = KVCache(tuple(layer.empty_cache(encoded.keys) for layer in layers))
        seen = tuple(
            layer.cross_attention.initial_state(source) for layer, source in zip(layers, memory, strict=True)
        )
        position = encoded.mask.new_zeros(encoded.mask.size(0), dtype=torch.long)
        return memory, TransformerDecoderState(past, seen, position)

    def forward(
        self,
        words: Tensor,
        state: TransformerDecoderState,
        memory: Memories,
        *,
        need_weights: bool = False,
        layout: SequenceLayout | None = None,
    ) -> DecoderOutput:
        """words [N, T, D], all at once.

        `layout`: they are of whole sentences that lie in one row, as those of the memory do; nothing was read before,
        and nothing can be read after them.
        """
        position = state.position[:, None] + torch.arange(words.size(1), device=words.device)
        if layout is not None:
            position = layout.positions
        x = self.dropout(words + self.position_encoding(position).to(words.dtype))
        adding = state.kv_cache.extend(words.size(1))
        entries: list[KeyValue] = []
        asked: list[AttentionOutput] = []
        for layer, source, seen in zip(self._layers(), memory, state.attention_states, strict=True):
            x, after, told = layer(
                x, adding, len(entries), source, seen, position, layout, need_weights=need_weights
            )
            entries.append(after)
            asked.append(told)
        after_all = TransformerDecoderState(
            adding.finish(entries), tuple(told.state for told in asked), state.position + words.size(1)
        )
        weights, drawn = (
            stack_layers(told.weights for told in asked),
            sum_sample_log_probs(told.sample_log_prob for told in asked),
        )
        return DecoderOutput(self.norm(x), after_all, weights, drawn)

    def _layers(self) -> list[TransformerDecoderLayer]:
        return cast("list[TransformerDecoderLayer]", list(self.layers))


class TransformerDecoderLayer(nn.Module):
    """Causal self-attention, attention to the source, feed-forward, each in a residual branch."""

    def __init__(self, config: TransformerDecoderConfig, dim: int, encoder: Encoder) -> None:
        super().__init__()
        self.self_attention = config.build_self_attention(dim)
        self.self_attention_residual = config.build_residual(dim)
        self.cross_attention: Attention = config.attention.build(dim, encoder.key_dim, encoder.value_dim, dim)
        self.cross_attention_residual = config.build_residual(dim)
        self.feed_forward = config.build_feed_forward(dim)
        self.feed_forward_residual = config.build_residual(dim)
        self.kv_heads, self.head_dim = self.self_attention.score.kv_heads, dim // config.heads

    def empty_cache(self, like: Tensor) -> KeyValue:
        """The keys and values of no words: two of [B, G, 0, d]."""
        empty = like.new_empty(like.size(0), self.kv_heads, 0, self.head_dim)
        return empty, empty

    def forward(
        self,
        x: Tensor,
        adding: CacheUpdate,
        index: int,
        memory: Memory,
        seen: AttentionState,
        position: Tensor,
        layout: SequenceLayout | None,
        *,
        need_weights: bool,
    ) -> tuple[Tensor, KeyValue, AttentionOutput]:
        """x [N, T, D] -> [N, T, D], the keys and values of all that has been read, what attention to the source gave

        `index` is the layer's own among those that are `adding` to what has been read.
        """
        y = self.self_attention_residual.sublayer_input(x)
        sentences = adding.old_layers[index][0].size(0)
        together, places = y.reshape(sentences, -1, y.size(-1)), position.reshape(sentences, -1)
        entries = adding.update_layer(
            index, self.self_attention.project_keys_values(together, together, places)
        )
        own = Memory(*entries, adding.mask, layout)
        read = self.self_attention(y, own, position, causal=adding.causal, layout=layout)
        x = self.self_attention_residual.add_output(x, read.context)
        asked = self.cross_attention(
            self.cross_attention_residual.sublayer_input(x),
            memory,
            position,
            seen,
            need_weights=need_weights,
            layout=layout,
        )
        x = self.cross_attention_residual.add_output(x, asked.context)
        x = self.feed_forward_residual.add_output(
            x, self.feed_forward(self.feed_forward_residual.sublayer_input(x))
        )
        return x, entries, asked


class TransformerDecoderConfig(TransformerConfig):
    """A Transformer decoder, as wide as the target embeddings."""

    attention: AttentionConfig = AttentionConfig(score=MultiHeadScoreConfig(kind="multi-head", heads=8))
    """Each layer's attention to the source; values are projected to the decoder's width."""

    def build(self, input_dim: int, encoder: Encoder) -> TransformerDecoder:
        """Raises ValueError when the heads do not divide `input_dim`."""
        return TransformerDecoder(self, input_dim, encoder)
