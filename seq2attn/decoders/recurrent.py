"""Recurrent decoders with an attention: cells that wait for it at each step, and cells that do not.

Shapes: B sentences, N = B*K rows, T words, L layers, D width of the decoder, E of the words, V of the encoder's values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from seq2attn.attention import Attended, Attention, Memories, Seen, in_turn
from seq2attn.attention.config import AttentionConfig
from seq2attn.attention.scores import AdditiveConfig, GeneralConfig
from seq2attn.decoders.base import Decoded, Decoder, every_layer
from seq2attn.decoders.wiring import BAHDANAU, LUONG, WhereConfig
from seq2attn.encoders.base import Encoded, Encoder
from seq2attn.nn.dropout import Dropout
from seq2attn.nn.initialization import initialise
from seq2attn.nn.linear import Linear, is_recording
from seq2attn.nn.rnn import Cells, Late
from seq2attn.nn.rnn.stacked import Bridge, FedCells, RecurrentConfig, WholeCells, by_layer, together


@dataclass(frozen=True)
class RecurrentState:
    """Where a recurrent decoder stands."""

    cells: Cells  # (h,) or (h, c), each [N, L, D]
    context: Tensor | None  # [N, V]: the last context, where the next cell is given it
    feed: Tensor | None  # [N, D]: the last attentional vector, where it is fed back
    seen: tuple[Seen]  # what the attention remembers
    position: Tensor  # [N]: words read

    def positions(self, words: Tensor) -> Tensor:
        """The positions [N, T] of words [N, T, E] that are read now."""
        return self.position[:, None] + torch.arange(words.size(1), device=words.device)


class AttentiveDecoder(Decoder[RecurrentState], ABC):
    """What all share: a first state from the source, one attention, and the vector that words are guessed from."""

    def __init__(self, config: AttentiveConfig, input_dim: int, encoder: Encoder) -> None:
        super().__init__()
        self.where = where = config.where
        self.bridge = Bridge(config.cell, encoder.final_dim, config.dim, config.layers)
        self.attention: Attention = config.attention.build(config.dim, encoder.key_dim, encoder.value_dim)
        context_dim = encoder.value_dim if "output" in where.context else 0
        word_dim = input_dim if where.word_to_output else 0
        self.mix = Linear(config.dim + context_dim + word_dim, config.dim)
        self.dropout = Dropout(config.dropout)
        self.dim, self.context_dim = config.dim, encoder.value_dim
        initialise(self)

    def prepare(self, encoded: Encoded) -> tuple[Memories, RecurrentState]:
        """The projected source, and s_0; what is fed back begins with zeros."""
        cells = self.bridge(encoded.final)
        memory = self.attention.project(encoded.keys, encoded.values, encoded.mask)
        h, where = cells[0], self.where
        waits = where.query == "current" and "cell" in where.context
        state = RecurrentState(
            cells,
            h.new_zeros(h.size(0), self.context_dim) if waits else None,
            h.new_zeros(h.size(0), self.dim) if where.input_feeding else None,
            (self.attention.begin(memory),),
            encoded.mask.new_zeros(h.size(0), dtype=torch.long),
        )
        return (memory,), state

    def attentional(
        self, outputs: Tensor, contexts: Tensor, words: Tensor, mix: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """h~ = tanh(W [state; context; word]), of those that `where` names: Luong et al. 2015, eq. 5. [..., D]

        `mix` is the product with W.
        """
        seen = [outputs]
        if "output" in self.where.context:
            seen.append(contexts)
        if self.where.word_to_output:
            seen.append(words)
        return self.dropout(torch.tanh(mix(torch.cat(seen, -1))))

    @abstractmethod
    def forward(
        self, words: Tensor, state: RecurrentState, memory: Memories, *, need_weights: bool = False
    ) -> Decoded:
        """words [N, T, E]"""


class AttentiveConfig(RecurrentConfig, ABC):
    """A recurrent decoder with an attention."""

    attention: AttentionConfig

    @property
    @abstractmethod
    def where(self) -> WhereConfig:
        """Where the attention enters."""

    def build(self, input_dim: int, encoder: Encoder) -> AttentiveDecoder:
        """For embedded words [N, T, input_dim]."""
        return (FedDecoder if self.where.feeds_back else WholeDecoder)(self, input_dim, encoder)


class WholeDecoder(AttentiveDecoder):
    """Cells that wait for nothing: they read all words in one call, and all queries are asked at once."""

    def __init__(self, config: AttentiveConfig, input_dim: int, encoder: Encoder) -> None:
        super().__init__(config, input_dim, encoder)
        self.cells = WholeCells(config.cell, input_dim, config.dim, config.layers, config.dropout)
        initialise(self.cells)

    def forward(
        self, words: Tensor, state: RecurrentState, memory: Memories, *, need_weights: bool = False
    ) -> Decoded:
        """words [N, T, E]."""
        outputs, cells = self.cells(words, state.cells)
        queries = outputs
        if self.where.query == "previous":
            queries = torch.cat([state.cells[0][:, -1:].to(outputs.dtype), outputs[:, :-1]], 1)
        asked = self.attention(
            queries, memory[0], state.positions(words), state.seen[0], need_weights=need_weights
        )
        hidden = self.attentional(outputs, asked.context, words, self.mix)
        after = RecurrentState(cells, None, None, (asked.seen,), state.position + words.size(1))
        return Decoded(hidden, after, every_layer([asked.weights]), asked.drawn)


class FedDecoder(AttentiveDecoder):
    """Cells that are given what the attention said, beside each word: its context, the attentional vector, or both."""

    def __init__(self, config: AttentiveConfig, input_dim: int, encoder: Encoder) -> None:
        super().__init__(config, input_dim, encoder)
        context_dim = self.context_dim if "cell" in self.where.context else 0
        feed_dim = context_dim + (self.dim if self.where.input_feeding else 0)
        self.cells = FedCells(config.cell, input_dim, feed_dim, config.dim, config.layers, config.dropout)

    def forward(
        self, words: Tensor, state: RecurrentState, memory: Memories, *, need_weights: bool = False
    ) -> Decoded:
        """words [N, T, E], one after the other; what is not fed back is made for all of them at once."""
        cells, context, feed, seen = by_layer(state.cells), state.context, state.feed, state.seen[0]
        outputs, feeds, steps = list[Tensor](), list[Tensor](), list[Attended]()
        read, mix = self.cells.steps(words), self._mixes(words)
        for t, (word, position) in enumerate(
            zip(words.unbind(1), state.positions(words).split(1, 1), strict=True)
        ):
            query = cells[-1][0]
            if self.where.query == "current":
                query, cells = read(t, self._fed(context, feed), cells)
            step = self.attention(query.unsqueeze(1), memory[0], position, seen, need_weights=need_weights)
            context, seen = step.context.squeeze(1), step.seen
            output = query
            if self.where.query == "previous":
                output, cells = read(t, self._fed(context, feed), cells)
            if feed is not None:
                feed = self.attentional(output, context, word, partial(mix, t))
                feeds.append(feed)
            outputs.append(output)
            steps.append(step)
        asked = in_turn(steps)
        hidden = (
            torch.stack(feeds, 1)
            if feeds
            else self.attentional(torch.stack(outputs, 1), asked.context, words, self.mix)
        )
        context = None if state.context is None else context
        after = RecurrentState(together(cells), context, feed, (seen,), state.position + words.size(1))
        return Decoded(hidden, after, every_layer([asked.weights]), asked.drawn)

    def _mixes(self, words: Tensor) -> Callable[[int, Tensor], Tensor]:
        """The mixture at step t of [N, I]; where it is fed back and trained, its weight waits for all steps."""
        if self.where.input_feeding and is_recording():
            rows, base = [words.size(0)] * words.size(1), self.mix.bias.to(words.dtype)
            return Late(base.expand(sum(rows), -1), self.mix.weight, rows)
        return lambda t, seen: self.mix(seen)

    def _fed(self, context: Tensor | None, feed: Tensor | None) -> Tensor:
        """What the cells are given beside a word: [N, F]"""
        given = [context if "cell" in self.where.context else None, feed]
        return torch.cat([x for x in given if x is not None], -1)


class BahdanauConfig(AttentiveConfig):
    """Bahdanau's decoder: queried by the previous state, context into the cell and the output."""

    kind: Literal["bahdanau"]
    attention: AttentionConfig = AttentionConfig(score=AdditiveConfig(kind="additive"))

    @property
    def where(self) -> WhereConfig:
        """As the paper has it."""
        return BAHDANAU


class LuongConfig(AttentiveConfig):
    """Luong's decoder: queried by the current state, context into the attentional vector."""

    kind: Literal["luong"]
    attention: AttentionConfig = AttentionConfig(score=GeneralConfig(kind="general", scaled=True))
    input_feeding: bool = True
    """Give the cells the last attentional vector beside the word."""

    @property
    def where(self) -> WhereConfig:
        """As the paper has it, with or without input feeding."""
        return LUONG if self.input_feeding else LUONG.model_copy(update={"input_feeding": False})


class RecurrentDecoderConfig(AttentiveConfig):
    """A recurrent decoder in which attention enters where you say; Bahdanau's and Luong's are two such choices."""

    kind: Literal["recurrent"]
    attention: AttentionConfig = AttentionConfig(score=GeneralConfig(kind="general", scaled=True))
    enters: WhereConfig = LUONG
    """Where the attention enters."""

    @property
    def where(self) -> WhereConfig:
        """As the config has it."""
        return self.enters
