"""Recurrent decoders with attention, with and without feedback of the attention into the RNN.

Shapes: B sentences, N = B*K rows, T tokens, L layers, D width of the decoder, E of the embeddings, V of the values.
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
    """State of a recurrent decoder after some target tokens."""

    rnn_state: RNNState  # (h,) or (h, c), each [N, L, D]
    context: Tensor | None  # [N, V]: the last context, if it is an input of the next step
    attentional_vector: Tensor | None  # [N, D]: the last attentional vector, for input feeding
    attention_states: tuple[AttentionState]
    position: Tensor  # [N]: number of decoded tokens

    def next_positions(self, embedded: Tensor) -> Tensor:
        """Positions [N, T] of the next tokens [N, T, E]."""
        return self.position[:, None] + torch.arange(embedded.size(1), device=embedded.device)


class AttentionRNNDecoder(Decoder[RecurrentDecoderState], ABC):
    """Base class: initial state from the source, one attention, and the attentional vector (readout)."""

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
        """Projected source and s_0; vectors that are fed back are zero at first."""
        cells = self.bridge(encoded.final_state)
        memory = self.attention.project_memory(encoded.keys, encoded.values, encoded.mask)
        h, wiring = cells[0], self.wiring
        needs_context = wiring.query == "current" and "cell" in wiring.context
        state = RecurrentDecoderState(
            cells,
            h.new_zeros(h.size(0), self.context_dim) if needs_context else None,
            h.new_zeros(h.size(0), self.dim) if wiring.input_feeding else None,
            (self.attention.initial_state(memory),),
            encoded.mask.new_zeros(h.size(0), dtype=torch.long),
        )
        return (memory,), state

    def attentional_vector(
        self, outputs: Tensor, contexts: Tensor, embedded: Tensor, readout: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """h~ = tanh(W [state; context; word]), of those in `wiring`: Luong et al. 2015, eq. 5. [..., D]

        `readout` is the product with W.
        """
        inputs = [outputs]
        if "output" in self.wiring.context:
            inputs.append(contexts)
        if self.wiring.word_to_output:
            inputs.append(embedded)
        return self.dropout(torch.tanh(readout(torch.cat(inputs, -1))))

    @abstractmethod
    def forward(
        self, embedded: Tensor, state: RecurrentDecoderState, memory: Memories, *, need_weights: bool = False
    ) -> DecoderOutput:
        """embedded [N, T, E]"""


class AttentionRNNDecoderConfig(RecurrentDecoderBaseConfig, ABC):
    """Base class of the configs of recurrent decoders with attention."""

    attention: AttentionConfig

    @property
    @abstractmethod
    def attention_wiring(self) -> AttentionWiringConfig:
        """Query state, use of the context vector, and input feeding."""

    def build(self, input_dim: int, encoder: Encoder) -> AttentionRNNDecoder:
        """For embedded tokens [N, T, input_dim]."""
        return (InputFeedRNNDecoder if self.attention_wiring.needs_sequential_steps else StdRNNDecoder)(
            self, input_dim, encoder
        )


class StdRNNDecoder(AttentionRNNDecoder):
    """RNN that does not depend on the attention: the whole target in one call, and all queries at once."""

    def __init__(self, config: AttentionRNNDecoderConfig, input_dim: int, encoder: Encoder) -> None:
        super().__init__(config, input_dim, encoder)
        self.rnn = TorchRNN(config.cell, input_dim, config.dim, config.layers, config.dropout)
        initialize_parameters(self.rnn)

    def forward(
        self, embedded: Tensor, state: RecurrentDecoderState, memory: Memories, *, need_weights: bool = False
    ) -> DecoderOutput:
        """embedded [N, T, E]"""
        outputs, cells = self.rnn(embedded, state.rnn_state)
        queries = outputs
        if self.wiring.query == "previous":
            queries = torch.cat([state.rnn_state[0][:, -1:].to(outputs.dtype), outputs[:, :-1]], 1)
        output = self.attention(
            queries,
            memory[0],
            state.next_positions(embedded),
            state.attention_states[0],
            need_weights=need_weights,
        )
        hidden = self.attentional_vector(outputs, output.context, embedded, self.readout)
        after = RecurrentDecoderState(cells, None, None, (output.state,), state.position + embedded.size(1))
        return DecoderOutput(hidden, after, stack_layers([output.weights]), output.sample_log_prob)


class InputFeedRNNDecoder(AttentionRNNDecoder):
    """RNN with feedback of the attention at each step: the context, the attentional vector, or both."""

    def __init__(self, config: AttentionRNNDecoderConfig, input_dim: int, encoder: Encoder) -> None:
        super().__init__(config, input_dim, encoder)
        context_dim = self.context_dim if "cell" in self.wiring.context else 0
        feed_dim = context_dim + (self.dim if self.wiring.input_feeding else 0)
        self.rnn = InputFedRNN(config.cell, input_dim, feed_dim, config.dim, config.layers, config.dropout)

    def forward(
        self, embedded: Tensor, state: RecurrentDecoderState, memory: Memories, *, need_weights: bool = False
    ) -> DecoderOutput:
        """embedded [N, T, E], step by step; vectors that are not fed back are computed for all steps at once."""
        cells, context, feed, attention_state = (
            unstack_layer_states(state.rnn_state),
            state.context,
            state.attentional_vector,
            state.attention_states[0],
        )
        outputs, feeds, steps = list[Tensor](), list[Tensor](), list[AttentionOutput]()
        step_rnn, readout = self.rnn.steps(embedded), self._readouts(embedded)
        for t, (word, position) in enumerate(
            zip(embedded.unbind(1), state.next_positions(embedded).split(1, 1), strict=True)
        ):
            query = cells[-1][0]
            if self.wiring.query == "current":
                query, cells = step_rnn(t, self._fed(context, feed), cells)
            step = self.attention(query.unsqueeze(1), memory[0], position, attention_state, need_weights=need_weights)
            context, attention_state = step.context.squeeze(1), step.state
            hidden_state = query
            if self.wiring.query == "previous":
                hidden_state, cells = step_rnn(t, self._fed(context, feed), cells)
            if feed is not None:
                feed = self.attentional_vector(hidden_state, context, word, partial(readout, t))
                feeds.append(feed)
            outputs.append(hidden_state)
            steps.append(step)
        output = concat_steps(steps)
        hidden = (
            torch.stack(feeds, 1)
            if feeds
            else self.attentional_vector(torch.stack(outputs, 1), output.context, embedded, self.readout)
        )
        context = None if state.context is None else context
        after = RecurrentDecoderState(
            stack_layer_states(cells), context, feed, (attention_state,), state.position + embedded.size(1)
        )
        return DecoderOutput(hidden, after, stack_layers([output.weights]), output.sample_log_prob)

    def _readouts(self, embedded: Tensor) -> Callable[[int, Tensor], Tensor]:
        """The readout of step t for [N, I]; in training with input feeding its weight gradient is deferred."""
        if self.wiring.input_feeding and is_grad_recording():
            rows, base = [embedded.size(0)] * embedded.size(1), self.readout.bias.to(embedded.dtype)
            return DeferredLinear(base.expand(sum(rows), -1), self.readout.weight, rows)
        return lambda t, inputs: self.readout(inputs)

    def _fed(self, context: Tensor | None, feed: Tensor | None) -> Tensor:
        """Vector that is fed to the RNN beside the embedded token: [N, F]"""
        parts = [context if "cell" in self.wiring.context else None, feed]
        return torch.cat([x for x in parts if x is not None], -1)


class BahdanauDecoderConfig(AttentionRNNDecoderConfig):
    """Decoder of Bahdanau et al. 2015: query of the previous state, context into the RNN and the readout."""

    kind: Literal["bahdanau"]
    attention: AttentionConfig = AttentionConfig(score=AdditiveScoreConfig(kind="additive"))

    @property
    def attention_wiring(self) -> AttentionWiringConfig:
        """Wiring of the paper."""
        return BAHDANAU_WIRING


class LuongDecoderConfig(AttentionRNNDecoderConfig):
    """Decoder of Luong et al. 2015: query of the current state, context into the attentional vector."""

    kind: Literal["luong"]
    attention: AttentionConfig = AttentionConfig(score=GeneralScoreConfig(kind="general", scaled=True))
    input_feeding: bool = True
    """Feed the last attentional vector to the RNN (Luong et al. 2015, section 3.3)."""

    @property
    def attention_wiring(self) -> AttentionWiringConfig:
        """Wiring of the paper, with or without input feeding."""
        return LUONG_WIRING if self.input_feeding else LUONG_WIRING.model_copy(update={"input_feeding": False})


class RecurrentDecoderConfig(AttentionRNNDecoderConfig):
    """Recurrent decoder with free wiring of the attention; `bahdanau` and `luong` are two special cases."""

    kind: Literal["recurrent"]
    attention: AttentionConfig = AttentionConfig(score=GeneralScoreConfig(kind="general", scaled=True))
    wiring: AttentionWiringConfig = LUONG_WIRING
    """Query state, use of the context vector, and input feeding."""

    @property
    def attention_wiring(self) -> AttentionWiringConfig:
        """The wiring of the config."""
        return self.wiring
