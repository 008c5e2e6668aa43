"""Recurrent decoders with attention, with and without feedback of the attention into the RNN.

Shapes: B sentences, N = B*K rows, T tokens, L layers, D width of the decoder, E of the embeddings, V of the values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from seq2attn.attention.attention import Attention, AttentionOutput, concat_steps, stack_layers
from seq2attn.attention.attention_config import AttentionConfig, default_score
from seq2attn.attention.base import AttentionState, Memories, Width
from seq2attn.config.base import Config, FieldError
from seq2attn.decoders.base import AttentionDecoderBaseConfig, Decoder, DecoderOutput
from seq2attn.decoders.bridge import Bridge, RecurrentDecoderBaseConfig
from seq2attn.encoders.base import Encoder, EncoderOutput
from seq2attn.nn.initialization import initialize_parameters
from seq2attn.nn.kernels.linear import Linear
from seq2attn.nn.kernels.rnn_cells import DeferredLinear, RNNState
from seq2attn.nn.layers import Dropout, next_positions
from seq2attn.nn.precision import is_grad_recording
from seq2attn.nn.stacked_rnn import InputFedRNN, TorchRNN, stack_layer_states, unstack_layer_states


class AttentionWiringConfig(Config):
    """Query state, use of the context vector, and input feeding; by default as in Luong et al. 2015."""

    query: Literal["previous", "current"] = "current"
    """State that queries the attention: of the step before, or of this step."""
    context: tuple[Literal["cell", "output"], ...] = Field(("output",), min_length=1)
    """cell: the context is an input of the RNN (of the step before if `query` is current); output: of the readout."""
    input_feeding: bool = True
    """Feed the last attentional vector to the RNN."""
    word_to_output: bool = False
    """Use the embedded input token in the readout as well."""

    def check_fields(self) -> list[FieldError]:
        """The error of a context that is used twice in one place."""
        is_double = len(set(self.context)) < len(self.context)
        return [FieldError("context", "lists a use of the context twice")] if is_double else []

    @property
    def needs_sequential_steps(self) -> bool:
        """True if the RNN depends on the attention, so that steps cannot be computed in one call."""
        return self.input_feeding or "cell" in self.context


GeneralAttention = Annotated[AttentionConfig, default_score({"kind": "general", "scaled": True})]


@dataclass(frozen=True)
class RecurrentDecoderState:
    """State of a recurrent decoder after some target tokens."""

    rnn_state: RNNState  # (h,) or (h, c), each [N, L, D]
    context: Tensor | None  # [N, V]: the last context, if it is an input of the next step
    attentional_vector: Tensor | None  # [N, D]: the last attentional vector, for input feeding
    attention_state: AttentionState
    position: Tensor  # [N]: number of decoded tokens


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
        rnn_state = self.bridge(encoded.final_state)
        memory = self.attention.project_memory(encoded.keys, encoded.values, encoded.mask)
        h, wiring = rnn_state[0], self.wiring
        needs_context = wiring.query == "current" and "cell" in wiring.context
        state = RecurrentDecoderState(
            rnn_state,
            h.new_zeros(h.size(0), self.context_dim) if needs_context else None,
            h.new_zeros(h.size(0), self.dim) if wiring.input_feeding else None,
            self.attention.initial_state(memory),
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


class AttentionRNNDecoderConfig(RecurrentDecoderBaseConfig, AttentionDecoderBaseConfig, ABC):
    """Base class of the configs of recurrent decoders with attention."""

    projects_context = False
    num_attentions: ClassVar[int] = 1  # of the top layer

    attention: AttentionConfig

    def check_widths(self, query: Width, key: Width | None) -> list[FieldError]:
        """Errors of widths that do not fit; queries are states of the RNN. None: the width of a plug-in."""
        return super().check_widths(Width(self.dim, "the decoder"), key)

    @property
    @abstractmethod
    def attention_wiring(self) -> AttentionWiringConfig:
        """Query state, use of the context vector, and input feeding."""

    def build(self, input_dim: int, encoder: Encoder) -> AttentionRNNDecoder:
        """For embedded tokens [N, T, input_dim]."""
        decoder_type = InputFeedRNNDecoder if self.attention_wiring.needs_sequential_steps else StdRNNDecoder
        return decoder_type(self, input_dim, encoder)


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
        outputs, rnn_state = self.rnn(embedded, state.rnn_state)
        queries, position = outputs, next_positions(state.position, embedded)
        if self.wiring.query == "previous":
            queries = torch.cat([state.rnn_state[0][:, -1:].to(outputs.dtype), outputs[:, :-1]], 1)
        output = self.attention(queries, memory[0], position, state.attention_state, need_weights=need_weights)
        hidden = self.attentional_vector(outputs, output.context, embedded, self.readout)
        new_state = RecurrentDecoderState(rnn_state, None, None, output.state, state.position + embedded.size(1))
        return DecoderOutput(hidden, new_state, *stack_layers([output]))


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
        layer_states = unstack_layer_states(state.rnn_state)
        context, feed, attention_state = state.context, state.attentional_vector, state.attention_state
        positions = next_positions(state.position, embedded).split(1, 1)
        step_rnn, readout = self.rnn.steps(embedded), self._readouts(embedded)
        hidden_states, feeds, steps = list[Tensor](), list[Tensor](), list[AttentionOutput]()
        for t, (token, position) in enumerate(zip(embedded.unbind(1), positions, strict=True)):
            query = layer_states[-1][0]
            if self.wiring.query == "current":
                query, layer_states = step_rnn(t, self._rnn_feed(context, feed), layer_states)
            step = self.attention(query.unsqueeze(1), memory[0], position, attention_state, need_weights=need_weights)
            context, attention_state = step.context.squeeze(1), step.state
            hidden_state = query
            if self.wiring.query == "previous":
                hidden_state, layer_states = step_rnn(t, self._rnn_feed(context, feed), layer_states)
            if feed is not None:
                feed = self.attentional_vector(hidden_state, context, token, partial(readout, t))
                feeds.append(feed)
            hidden_states.append(hidden_state)
            steps.append(step)
        output = concat_steps(steps)
        if feeds:
            hidden = torch.stack(feeds, 1)
        else:
            hidden = self.attentional_vector(torch.stack(hidden_states, 1), output.context, embedded, self.readout)
        context = None if state.context is None else context
        rnn_state, position = stack_layer_states(layer_states), state.position + embedded.size(1)
        new_state = RecurrentDecoderState(rnn_state, context, feed, attention_state, position)
        return DecoderOutput(hidden, new_state, *stack_layers([output]))

    def _readouts(self, embedded: Tensor) -> Callable[[int, Tensor], Tensor]:
        """The readout of step t for [N, I]; in training with input feeding its weight gradient is deferred."""
        if self.wiring.input_feeding and is_grad_recording():
            rows, base = [embedded.size(0)] * embedded.size(1), self.readout.bias.to(embedded.dtype)
            return DeferredLinear(base.expand(sum(rows), -1), self.readout.weight, rows)
        return lambda t, inputs: self.readout(inputs)

    def _rnn_feed(self, context: Tensor | None, feed: Tensor | None) -> Tensor:
        """Vector that is fed to the RNN beside the embedded token: [N, F]"""
        vectors = [context if "cell" in self.wiring.context else None, feed]
        return torch.cat([x for x in vectors if x is not None], -1)


class BahdanauDecoderConfig(AttentionRNNDecoderConfig):
    """Decoder of Bahdanau et al. 2015: query of the previous state, context into the RNN and the readout."""

    kind: Literal["bahdanau"] = "bahdanau"
    attention: Annotated[AttentionConfig, default_score({"kind": "additive"})] = Field({}, validate_default=True)
    """Default of `score`: `{kind: additive}`."""

    @property
    def attention_wiring(self) -> AttentionWiringConfig:
        """Section 3.1 and A.2.2 of the paper, with a tanh layer of s_i (eq. 4) instead of maxout units of s_{i-1}."""
        return AttentionWiringConfig(
            query="previous", context=("cell", "output"), input_feeding=False, word_to_output=True
        )


class LuongDecoderConfig(AttentionRNNDecoderConfig):
    """Decoder of Luong et al. 2015: query of the current state, context into the attentional vector."""

    kind: Literal["luong"] = "luong"
    attention: GeneralAttention = Field({}, validate_default=True)
    """Default of `score`: `{kind: general, scaled: true}`."""
    input_feeding: bool = True
    """Feed the last attentional vector to the RNN (Luong et al. 2015, section 3.3)."""

    @property
    def attention_wiring(self) -> AttentionWiringConfig:
        """Section 3 and eq. 5 of the paper, with or without input feeding."""
        return AttentionWiringConfig(input_feeding=self.input_feeding)


class RecurrentDecoderConfig(AttentionRNNDecoderConfig):
    """Recurrent decoder with free wiring of the attention; `bahdanau` and `luong` are two special cases."""

    kind: Literal["recurrent"] = "recurrent"
    attention: GeneralAttention = Field({}, validate_default=True)
    """Default of `score`: `{kind: general, scaled: true}`."""
    wiring: AttentionWiringConfig = AttentionWiringConfig()

    @property
    def attention_wiring(self) -> AttentionWiringConfig:
        """The wiring of the config."""
        return self.wiring
