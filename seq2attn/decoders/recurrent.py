"""Recurrent decoders: without attention, Bahdanau's (queried by the previous state) and Luong's (by the current one).

Shapes: B sentences, N = B*K rows, T words, L layers, D width of the decoder, V width of the encoder's values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from seq2attn.attention import Attention, Memories, Memory
from seq2attn.attention.config import AttentionConfig
from seq2attn.attention.scores import AdditiveConfig, GeneralConfig
from seq2attn.config.base import Config
from seq2attn.decoders.base import Decoded, Decoder, every_layer
from seq2attn.decoders.cells import Bridge, CellKind, Cells, FedCells, WholeCells, by_layer, together
from seq2attn.encoders.base import Encoded, Encoder
from seq2attn.initial import initialise


@dataclass(frozen=True)
class RecurrentState:
    """Where a recurrent decoder stands."""

    cells: Cells  # (h,) or (h, c), each [N, L, D]
    feed: Tensor | None  # [N, D]: the last attentional vector, where it is fed back
    position: Tensor  # [N]: words read


def positions(state: RecurrentState, words: Tensor) -> Tensor:
    """The positions [N, T] of words [N, T, E] that are read after `state`."""
    return state.position[:, None] + torch.arange(words.size(1), device=words.device)


class RecurrentConfig(Config):
    """What the recurrent decoders have in common."""

    cell: CellKind = "gru"
    dim: PositiveInt = 512
    """Width of the cells and of what words are guessed from."""
    layers: PositiveInt = 1
    dropout: float = Field(0.0, ge=0, lt=1)
    """Between layers and on what words are guessed from."""


class FixedDecoder(Decoder[RecurrentState]):
    """No attention: one vector stands for the whole source at every step (Cho et al. 2014, section 2.2)."""

    def __init__(self, config: FixedConfig, input_dim: int, final_dim: int) -> None:
        super().__init__()
        self.bridge = Bridge(config.cell, final_dim, config.dim, config.layers)
        self.cells = WholeCells(config.cell, input_dim + final_dim, config.dim, config.layers, config.dropout)
        self.mix = nn.Linear(config.dim + final_dim + input_dim, config.dim)
        self.dropout = nn.Dropout(config.dropout)
        self.dim = config.dim
        initialise(self)

    def prepare(self, encoded: Encoded) -> tuple[Memories, RecurrentState]:
        """The memory is the one vector: a source of a single word that every step looks at."""
        summary = encoded.final[0][:, None, -1:]  # [B, 1, 1, F]
        mask = torch.ones_like(summary[..., :1], dtype=torch.bool)
        position = encoded.mask.new_zeros(summary.size(0), dtype=torch.long)
        return (Memory(summary, summary, mask),), RecurrentState(self.bridge(encoded.final), None, position)

    def forward(
        self, words: Tensor, state: RecurrentState, memory: Memories, *, need_weights: bool = False
    ) -> Decoded:
        """words [N, T, E]; there are no weights."""
        summary = memory[0].values[:, 0]  # [B, 1, F]
        summary = summary.repeat_interleave(words.size(0) // summary.size(0), 0).expand(-1, words.size(1), -1)
        outputs, cells = self.cells(torch.cat([words, summary], -1), state.cells)
        hidden = torch.tanh(self.mix(torch.cat([outputs, summary, words], -1)))
        return Decoded(
            self.dropout(hidden), RecurrentState(cells, None, state.position + words.size(1)), None
        )


class FixedConfig(RecurrentConfig):
    """A recurrent decoder without attention."""

    kind: Literal["fixed"]

    def build(self, input_dim: int, encoder: Encoder) -> FixedDecoder:
        """For embedded words [N, T, input_dim]."""
        return FixedDecoder(self, input_dim, encoder.final_dim)


class AttentiveDecoder(Decoder[RecurrentState]):
    """What Bahdanau's and Luong's decoders share: a first state from the source, and one attention."""

    def __init__(self, config: AttentiveConfig, encoder: Encoder) -> None:
        super().__init__()
        self.bridge = Bridge(config.cell, encoder.final_dim, config.dim, config.layers)
        self.attention: Attention = config.attention.build(config.dim, encoder.key_dim, encoder.value_dim)
        self.dropout = nn.Dropout(config.dropout)
        self.dim = config.dim
        initialise(self)

    def prepare(self, encoded: Encoded) -> tuple[Memories, RecurrentState]:
        """The projected source, and s_0."""
        cells = self.bridge(encoded.final)
        position = encoded.mask.new_zeros(encoded.mask.size(0), dtype=torch.long)
        memory = self.attention.project(encoded.keys, encoded.values, encoded.mask)
        return (memory,), RecurrentState(cells, self.first_feed(cells), position)

    def first_feed(self, cells: Cells) -> Tensor | None:
        """What is fed back before there is anything to feed back."""
        return None


class AttentiveConfig(RecurrentConfig):
    """A recurrent decoder with an attention."""

    attention: AttentionConfig


class BahdanauDecoder(AttentiveDecoder):
    """Attend with the state before the word, recur on word and context, mix all three: Bahdanau et al. 2015, 3.1.

    The mixture is a tanh layer where the paper has a maxout layer.
    """

    def __init__(self, config: BahdanauConfig, input_dim: int, encoder: Encoder) -> None:
        super().__init__(config, encoder)
        context_dim = encoder.value_dim
        self.cells = FedCells(config.cell, input_dim, context_dim, config.dim, config.layers, config.dropout)
        self.mix = nn.Linear(config.dim + context_dim + input_dim, config.dim)
        initialise(self.mix)

    def forward(
        self, words: Tensor, state: RecurrentState, memory: Memories, *, need_weights: bool = False
    ) -> Decoded:
        """words [N, T, E]: the steps in turn, then the mixture for all of them at once."""
        cells, outputs, contexts, weights = by_layer(state.cells), [], [], []
        for gates, position in zip(
            self.cells.word_gates(words), positions(state, words).split(1, 1), strict=True
        ):
            query = cells[-1][0].unsqueeze(1)
            context, seen = self.attention(query, memory[0], position, need_weights=need_weights)
            output, cells = self.cells(gates, context.squeeze(1), cells)
            outputs.append(output)
            contexts.append(context)
            weights.append(seen)
        mixed = torch.tanh(self.mix(torch.cat([torch.stack(outputs, 1), torch.cat(contexts, 1), words], -1)))
        after = RecurrentState(together(cells), None, state.position + words.size(1))
        return Decoded(self.dropout(mixed), after, every_layer([join(weights)]))


class BahdanauConfig(AttentiveConfig):
    """Bahdanau's decoder: queried by the previous state, context into the cell."""

    kind: Literal["bahdanau"]
    attention: AttentionConfig = AttentionConfig(score=AdditiveConfig(kind="additive"))

    def build(self, input_dim: int, encoder: Encoder) -> BahdanauDecoder:
        """For embedded words [N, T, input_dim]."""
        return BahdanauDecoder(self, input_dim, encoder)


class LuongDecoder(AttentiveDecoder):
    """Recur, attend with the new state, h~ = tanh(W [context; state]): Luong et al. 2015, section 3, eq. 5.

    Without input feeding the cells are read in one call and all queries are asked at once.
    """

    def __init__(self, config: LuongConfig, input_dim: int, encoder: Encoder) -> None:
        super().__init__(config, encoder)
        self.cells = WholeCells(config.cell, input_dim, config.dim, config.layers, config.dropout)
        self.mix = nn.Linear(config.dim + encoder.value_dim, config.dim)
        initialise(self.cells)
        initialise(self.mix)

    def forward(
        self, words: Tensor, state: RecurrentState, memory: Memories, *, need_weights: bool = False
    ) -> Decoded:
        """words [N, T, E]."""
        outputs, cells = self.cells(words, state.cells)
        context, weights = self.attention(
            outputs, memory[0], positions(state, words), need_weights=need_weights
        )
        hidden = self.dropout(torch.tanh(self.mix(torch.cat([context, outputs], -1))))
        after = RecurrentState(cells, None, state.position + words.size(1))
        return Decoded(hidden, after, every_layer([weights]))


class InputFeedingDecoder(AttentiveDecoder):
    """Luong's decoder whose cells are also given the last attentional vector: Luong et al. 2015, section 3.3."""

    def __init__(self, config: LuongConfig, input_dim: int, encoder: Encoder) -> None:
        super().__init__(config, encoder)
        self.cells = FedCells(config.cell, input_dim, config.dim, config.dim, config.layers, config.dropout)
        self.mix = nn.Linear(config.dim + encoder.value_dim, config.dim)
        initialise(self.mix)

    def first_feed(self, cells: Cells) -> Tensor:
        """A vector of zeros [B, D]."""
        return torch.zeros_like(cells[0][:, 0])

    def forward(
        self, words: Tensor, state: RecurrentState, memory: Memories, *, need_weights: bool = False
    ) -> Decoded:
        """words [N, T, E], one after the other."""
        cells, feed, hidden, weights = by_layer(state.cells), state.feed, [], []
        for gates, position in zip(
            self.cells.word_gates(words), positions(state, words).split(1, 1), strict=True
        ):
            output, cells = self.cells(gates, feed, cells)
            context, seen = self.attention(
                output.unsqueeze(1), memory[0], position, need_weights=need_weights
            )
            feed = self.dropout(torch.tanh(self.mix(torch.cat([context.squeeze(1), output], -1))))
            hidden.append(feed)
            weights.append(seen)
        after = RecurrentState(together(cells), feed, state.position + words.size(1))
        return Decoded(torch.stack(hidden, 1), after, every_layer([join(weights)]))


class LuongConfig(AttentiveConfig):
    """Luong's decoder: queried by the current state, context into the attentional vector."""

    kind: Literal["luong"]
    attention: AttentionConfig = AttentionConfig(score=GeneralConfig(kind="general"))
    input_feeding: bool = True
    """Give the cells the last attentional vector beside the word."""

    def build(self, input_dim: int, encoder: Encoder) -> LuongDecoder | InputFeedingDecoder:
        """For embedded words [N, T, input_dim]."""
        return (InputFeedingDecoder if self.input_feeding else LuongDecoder)(self, input_dim, encoder)


def join(weights: list[Tensor | None]) -> Tensor | None:
    """T times [N, H, 1, S], or None when they were not asked for -> [N, H, T, S]"""
    given = [w for w in weights if w is not None]
    return torch.cat(given, 2) if given else None
