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

from seq2attn.attention import Attention, AttentionOutput, AttentionState, Memories, concat_steps
from seq2attn.attention.config import AttentionConfig
from seq2attn.attention.scores import AdditiveScoreConfig, GeneralScoreConfig
from seq2attn.decoders.base import Decoder, DecoderOutput, stack_layers
from seq2attn.decoders.wiring import BAHDANAU_WIRING, LUONG_WIRING, AttentionWiringConfig
from seq2attn.encoders.base import Encoder, EncoderOutput
from seq2attn.nn.dropout import Dropout
from seq2attn.nn.initialization import initialize_parameters
from seq2attn.nn.linear import Linear, is_grad_recording
from seq2attn.nn.rnn import DeferredLinear, RNNState
from seq2attn.nn.rnn.stacked import (
    Bridge,
    InputFedRNN,
    RecurrentDecoderBaseConfig,
    TorchRNN,
    stack_layer_states,
    unstack_layer_states,
)


@dataclass(frozen=True)
class RecurrentDecoderState:
    """Where a recurrent decoder stands."""

    rnn_state: RNNState  # (h,) or (h, c), each [N, L, D]
    context: Tensor | None  # [N, V]: the last context, where the next cell is given it
    attentional_vector: Tensor | None  # [N, D]: the last attentional vector, where it is fed back
    attention_states: tuple[AttentionState]  # what the attention remembers
    position: Tensor  # [N]: words read

    def next_positions(self, words: Tensor) -> Tensor:
        """The positions [N, T] of words [N, T, E] that are read now."""
        return self.position[:, None] + torch.arange(words.size(1), device=words.device)


class AttentionRNNDecoder(Decoder[RecurrentDecoderState], ABC):
    """What all share: a first state from the source, one attention, and the vector that words are guessed from."""

    def __init__(self, config: AttentionRNNDecoderConfig, input_dim: int, encoder: Encoder) -> None:
        super().__init__()
        self.wiring = wiring = config.attention_wiring
        self.bridge = Bridge(config.cell, encoder.final_dim, config.dim, config.layers)
        self.attention: Attention = config.attention.build(config.dim, encoder.key_dim, encoder.value_dim)
        context_dim = encoder.value_dim if "output" in wiring.context else 0
        word_dim = input_dim if wiring.word_to_output else 0
        self.readout = Linear(config.dim + context_dim + word_dim, config.dim)
        self.dropout = Dropout(config.dropout)
        self.dim, self.context_dim = config.dim, encoder.value_dim
        initialize_parameters(self)

    def init_state(self, encoded: EncoderOutput) -> tuple[Memories, RecurrentDecoderState]:
        """The projected source, and s_0; what is fed back begins with zeros."""
        cells = self.bridge(encoded.final_state)
        memory = self.attention.project_memory(encoded.keys, encoded.values, encoded.mask)
        h, wiring = cells[0], self.wiring
        waits = wiring.query == "current" and "cell" in wiring.context
        state = RecurrentDecoderState(
            cells,
            h.new_zeros(h.size(0), self.context_dim) if waits else None,
            h.new_zeros(h.size(0), self.dim) if wiring.input_feeding else None,
            (self.attention.initial_state(memory),),
            encoded.mask.new_zeros(h.size(0), dtype=torch.long),
        )
        return (memory,), state

    def attentional_vector(
        self, outputs: Tensor, contexts: Tensor, words: Tensor, readout: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """h~ = tanh(W [state; context; word]), of those that `wiring` names: Luong et al. 2015, eq. 5. [..., D]

        `readout` is the product with W.
        """
        seen = [outputs]
        if "output" in self.wiring.context:
            seen.append(contexts)
        if self.wiring.word_to_output:
            seen.append(words)
        return self.dropout(torch.tanh(readout(torch.cat(seen, -1))))

    @abstractmethod
    def forward(
        self, words: Tensor, state: RecurrentDecoderState, memory: Memories, *, need_weights: bool = False
    ) -> DecoderOutput:
        """words [N, T, E]"""


class AttentionRNNDecoderConfig(RecurrentDecoderBaseConfig, ABC):
    """A recurrent decoder with an attention."""

    attention: AttentionConfig

    @property
    @abstractmethod
    def attention_wiring(self) -> AttentionWiringConfig:
        """Where the attention enters."""

    def build(self, input_dim: int, encoder: Encoder) -> AttentionRNNDecoder:
        """For embedded words [N, T, input_dim]."""
        return (InputFeedRNNDecoder if self.attention_wiring.needs_sequential_steps else StdRNNDecoder)(
            self, input_dim, encoder
        )


class StdRNNDecoder(AttentionRNNDecoder):
    """Cells that wait for nothing: they read all words in one call, and all queries are asked at once."""

    def __init__(self, config: AttentionRNNDecoderConfig, input_dim: int, encoder: Encoder) -> None:
        super().__init__(config, input_dim, encoder)
        self.rnn = TorchRNN(config.cell, input_dim, config.dim, config.layers, config.dropout)
        initialize_parameters(self.rnn)

    def forward(
        self, words: Tensor, state: RecurrentDecoderState, memory: Memories, *, need_weights: bool = False
    ) -> DecoderOutput:
        """words [N, T, E]."""
        outputs, cells = self.rnn(words, state.rnn_state)
        queries = outputs
        if self.wiring.query == "previous":
            queries = torch.cat([state.rnn_state[0][:, -1:].to(outputs.dtype), outputs[:, :-1]], 1)
        asked = self.attention(
            queries,
            memory[0],
            state.next_positions(words),
            state.attention_states[0],
            need_weights=need_weights,
        )
        hidden = self.attentional_vector(outputs, asked.context, words, self.readout)
        after = RecurrentDecoderState(cells, None, None, (asked.state,), state.position + words.size(1))
        return DecoderOutput(hidden, after, stack_layers([asked.weights]), asked.sample_log_prob)


class InputFeedRNNDecoder(AttentionRNNDecoder):
    """Cells that are given what the attention said, beside each word: its context, the attentional vector, or both."""

    def __init__(self, config: AttentionRNNDecoderConfig, input_dim: int, encoder: Encoder) -> None:
        super().__init__(config, input_dim, encoder)
        context_dim = self.context_dim if "cell" in self.wiring.context else 0
        feed_dim = context_dim + (self.dim if self.wiring.input_feeding else 0)
        self.rnn = InputFedRNN(config.cell, input_dim, feed_dim, config.dim, config.layers, config.dropout)

    def forward(
        self, words: Tensor, state: RecurrentDecoderState, memory: Memories, *, need_weights: bool = False
    ) -> DecoderOutput:
        """words [N, T, E], one after the other; what is not fed back is made for all of them at once."""
        cells, context, feed, seen = (
            unstack_layer_states(state.rnn_state),
            state.context,
            state.attentional_vector,
            state.attention_states[0],
        )
        outputs, feeds, steps = list[Tensor](), list[Tensor](), list[AttentionOutput]()
        read, mix = self.rnn.steps(words), self._mixes(words)
        for t, (word, position) in enumerate(
            zip(words.unbind(1), state.next_positions(words).split(1, 1), strict=True)
        ):
            query = cells[-1][0]
            if self.wiring.query == "current":
                query, cells = read(t, self._fed(context, feed), cells)
            step = self.attention(query.unsqueeze(1), memory[0], position, seen, need_weights=need_weights)
            context, seen = step.context.squeeze(1), step.state
            output = query
            if self.wiring.query == "previous":
                output, cells = read(t, self._fed(context, feed), cells)
            if feed is not None:
                feed = self.attentional_vector(output, context, word, partial(mix, t))
                feeds.append(feed)
            outputs.append(output)
            steps.append(step)
        asked = concat_steps(steps)
        hidden = (
            torch.stack(feeds, 1)
            if feeds
            else self.attentional_vector(torch.stack(outputs, 1), asked.context, words, self.readout)
        )
        context = None if state.context is None else context
        after = RecurrentDecoderState(
            stack_layer_states(cells), context, feed, (seen,), state.position + words.size(1)
        )
        return DecoderOutput(hidden, after, stack_layers([asked.weights]), asked.sample_log_prob)

    def _mixes(self, words: Tensor) -> Callable[[int, Tensor], Tensor]:
        """The mixture at step t of [N, I]; where it is fed back and trained, its weight waits for all steps."""
        if self.wiring.input_feeding and is_grad_recording():
            rows, base = [words.size(0)] * words.size(1), self.readout.bias.to(words.dtype)
            return DeferredLinear(base.expand(sum(rows), -1), self.readout.weight, rows)
        return lambda t, seen: self.readout(seen)

    def _fed(self, context: Tensor | None, feed: Tensor | None) -> Tensor:
        """What the cells are given beside a word: [N, F]"""
        given = [context if "cell" in self.wiring.context else None, feed]
        return torch.cat([x for x in given if x is not None], -1)


class BahdanauDecoderConfig(AttentionRNNDecoderConfig):
    """Bahdanau's decoder: queried by the previous state, context into the cell and the output."""

    kind: Literal["bahdanau"]
    attention: AttentionConfig = AttentionConfig(score=AdditiveScoreConfig(kind="additive"))

    @property
    def attention_wiring(self) -> AttentionWiringConfig:
        """As the paper has it."""
        return BAHDANAU_WIRING


class LuongDecoderConfig(AttentionRNNDecoderConfig):
    """Luong's decoder: queried by the current state, context into the attentional vector."""

    kind: Literal["luong"]
    attention: AttentionConfig = AttentionConfig(score=GeneralScoreConfig(kind="general", scaled=True))
    input_feeding: bool = True
    """Give the cells the last attentional vector beside the word."""

    @property
    def attention_wiring(self) -> AttentionWiringConfig:
        """As the paper has it, with or without input feeding."""
        return (
            LUONG_WIRING if self.input_feeding else LUONG_WIRING.model_copy(update={"input_feeding": False})
        )


class RecurrentDecoderConfig(AttentionRNNDecoderConfig):
    """A recurrent decoder in which attention enters where you say; Bahdanau's and Luong's are two such choices."""

    kind: Literal["recurrent"]
    attention: AttentionConfig = AttentionConfig(score=GeneralScoreConfig(kind="general", scaled=True))
    wiring: AttentionWiringConfig = LUONG_WIRING
    """Where the attention enters."""

    @property
    def attention_wiring(self) -> AttentionWiringConfig:
        """As the config has it."""
        return self.wiring
