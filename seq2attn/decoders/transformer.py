"""The Transformer decoder: causal self-attention and attention to the source (Vaswani et al. 2017, section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from seq2attn.attention import Attended, Attention, Memories, Memory, Seen
from seq2attn.attention.config import AttentionConfig
from seq2attn.attention.scores import MultiHeadConfig
from seq2attn.decoders.base import Decoded, Decoder, all_drawn, every_layer
from seq2attn.decoders.kv_cache import Adding, KeysValues, Past
from seq2attn.encoders.base import Encoded, Encoder
from seq2attn.encoders.transformer import TransformerConfig
from seq2attn.nn.dropout import Dropout
from seq2attn.nn.initialization import initialise
from seq2attn.nn.varlen import Spans


@dataclass(frozen=True)
class TransformerState:
    """The keys and values of the words read so far."""

    past: Past  # which the hypotheses of a sentence share
    seen: tuple[Seen, ...]  # what each layer's attention to the source remembers
    position: Tensor  # [N]: words read


class TransformerDecoder(Decoder[TransformerState]):
    """Layers of self-attention, attention to the source and feed-forward over words with positions."""

    def __init__(self, config: TransformerDecoderConfig, dim: int, encoder: Encoder) -> None:
        super().__init__()
        self.positions = config.position_vectors(dim)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(
            TransformerDecoderLayer(config, dim, encoder) for _ in range(config.layers)
        )
        self.norm = config.last_norm(dim)
        self.dim = dim
        initialise(self)

    def prepare(self, encoded: Encoded) -> tuple[Memories, TransformerState]:
        """The source projected for every layer, and a state without a past."""
        layers = self._layers()
        memory = tuple(
            layer.source.project(encoded.keys, encoded.values, encoded.mask, encoded.spans)
            for layer in layers
        )
        past = Past(tuple(layer.nothing(encoded.keys) for layer in layers))
        seen = tuple(layer.source.begin(source) for layer, source in zip(layers, memory, strict=True))
        position = encoded.mask.new_zeros(encoded.mask.size(0), dtype=torch.long)
        return memory, TransformerState(past, seen, position)

    def forward(
        self,
        words: Tensor,
        state: TransformerState,
        memory: Memories,
        *,
        need_weights: bool = False,
        spans: Spans | None = None,
    ) -> Decoded:
        """words [N, T, D], all at once.

        `spans`: they are of whole sentences that lie in one row, as those of the memory do; nothing was read before,
        and nothing can be read after them.
        """
        position = state.position[:, None] + torch.arange(words.size(1), device=words.device)
        if spans is not None:
            position = spans.position
        x = self.dropout(words + self.positions(position).to(words.dtype))
        adding = state.past.add(words.size(1))
        entries: list[KeysValues] = []
        asked: list[Attended] = []
        for layer, source, seen in zip(self._layers(), memory, state.seen, strict=True):
            x, after, told = layer(
                x, adding, len(entries), source, seen, position, spans, need_weights=need_weights
            )
            entries.append(after)
            asked.append(told)
        after_all = TransformerState(
            adding.after(entries), tuple(told.seen for told in asked), state.position + words.size(1)
        )
        weights, drawn = every_layer(told.weights for told in asked), all_drawn(told.drawn for told in asked)
        return Decoded(self.norm(x), after_all, weights, drawn)

    def _layers(self) -> list[TransformerDecoderLayer]:
        return cast("list[TransformerDecoderLayer]", list(self.layers))


class TransformerDecoderLayer(nn.Module):
    """Causal self-attention, attention to the source, feed-forward, each in a residual branch."""

    def __init__(self, config: TransformerDecoderConfig, dim: int, encoder: Encoder) -> None:
        super().__init__()
        self.target = config.self_attention(dim)
        self.target_branch = config.branch(dim)
        self.source: Attention = config.attention.build(dim, encoder.key_dim, encoder.value_dim, dim)
        self.source_branch = config.branch(dim)
        self.feed_forward = config.feed_forward_part(dim)
        self.feed_forward_branch = config.branch(dim)
        self.groups, self.head_dim = self.target.score.groups, dim // config.heads

    def nothing(self, like: Tensor) -> KeysValues:
        """The keys and values of no words: two of [B, G, 0, d]."""
        empty = like.new_empty(like.size(0), self.groups, 0, self.head_dim)
        return empty, empty

    def forward(
        self,
        x: Tensor,
        adding: Adding,
        index: int,
        memory: Memory,
        seen: Seen,
        position: Tensor,
        spans: Spans | None,
        *,
        need_weights: bool,
    ) -> tuple[Tensor, KeysValues, Attended]:
        """x [N, T, D] -> [N, T, D], the keys and values of all that has been read, what attention to the source gave

        `index` is the layer's own among those that are `adding` to what has been read.
        """
        y = self.target_branch.enter(x)
        sentences = adding.before[index][0].size(0)
        together, places = y.reshape(sentences, -1, y.size(-1)), position.reshape(sentences, -1)
        entries = adding.layer(index, self.target.keys_values(together, together, places))
        own = Memory(*entries, adding.mask, spans)
        read = self.target(y, own, position, causal=adding.causal, spans=spans)
        x = self.target_branch.leave(x, read.context)
        asked = self.source(
            self.source_branch.enter(x), memory, position, seen, need_weights=need_weights, spans=spans
        )
        x = self.source_branch.leave(x, asked.context)
        x = self.feed_forward_branch.leave(x, self.feed_forward(self.feed_forward_branch.enter(x)))
        return x, entries, asked


class TransformerDecoderConfig(TransformerConfig):
    """A Transformer decoder, as wide as the target embeddings."""

    attention: AttentionConfig = AttentionConfig(score=MultiHeadConfig(kind="multi-head", heads=8))
    """Each layer's attention to the source; values are projected to the decoder's width."""

    def build(self, input_dim: int, encoder: Encoder) -> TransformerDecoder:
        """Raises ValueError when the heads do not divide `input_dim`."""
        return TransformerDecoder(self, input_dim, encoder)
