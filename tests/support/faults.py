"""Plug-ins of a config: encoders that fail on request, `kind: tests.support.faults:Faulty`, and a decoder."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

import seq2attn
from seq2attn.decoders.base import DecoderOutput
from seq2attn.decoders.bridge import RecurrentDecoderBaseConfig
from seq2attn.decoders.fixed_context import FixedContextDecoder
from seq2attn.encoders.base import Encoder, EncoderOutput
from seq2attn.encoders.recurrent import RecurrentEncoderConfig
from seq2attn.nn.packing import Sequences
from seq2attn.training.train_state import update_seed

UPDATES = {update_seed(1, update, rank): (update, rank) for update in range(1, 100) for rank in range(2)}
"""Update and rank of a training by the random seed that it sets."""


class _GRU(Encoder):
    def __init__(self, config: Any, input_dim: int) -> None:
        super().__init__()
        self.config, self.gru = config, RecurrentEncoderConfig(kind="gru", dim=8).build(input_dim)
        self.key_dim, self.value_dim, self.final_dim = self.gru.key_dim, self.gru.value_dim, self.gru.final_dim


class _Custom(torch.autograd.Function):
    """The identity, with a gradient computed by a function."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, backward: Any) -> Tensor:
        ctx.backward_function = backward
        return x.clone()

    @staticmethod
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor, None]:
        return ctx.backward_function(d), None


class Blind:
    class Config(RecurrentDecoderBaseConfig):
        kind: str

        def build(self, input_dim: int, encoder: Encoder) -> FixedContextDecoder:
            return FixedContextDecoder(self, input_dim, encoder.final_dim)


class Slow(_GRU):
    """A GRU that takes 100 seconds to build, and `per_token` for each token, by a clock that counts `seconds`."""

    seconds = 0.0

    class Config(seq2attn.Config):
        kind: str
        per_token: float = 0.0

        def build(self, input_dim: int) -> Encoder:
            Slow.seconds += 100
            return Slow(self, input_dim)

    def forward(self, embedded: Tensor, sequences: Sequences, *, need_weights: bool = False) -> EncoderOutput:
        Slow.seconds += self.config.per_token * embedded[..., 0].numel()
        return self.gru(embedded, sequences)


class SlowSearch(FixedContextDecoder):
    """A decoder that takes a second for each hypothesis in each step of a search, by the clock of `Slow`."""

    class Config(RecurrentDecoderBaseConfig):
        kind: str

        def build(self, input_dim: int, encoder: Encoder) -> FixedContextDecoder:
            return SlowSearch(self, input_dim, encoder.final_dim)

    def forward(self, embedded: Tensor, *arguments: Any, **options: Any) -> DecoderOutput:
        Slow.seconds += len(embedded) * (embedded.size(1) == 1)
        return super().forward(embedded, *arguments, **options)


class Measured(_GRU):
    """A GRU that reads a number of a tensor while it is built: on the meta device there is none."""

    class Config(seq2attn.Config):
        kind: str

        def build(self, input_dim: int) -> Encoder:
            return Measured(self, input_dim)

    def __init__(self, config: Config, input_dim: int) -> None:
        super().__init__(config, input_dim)
        self.scale = float(torch.ones(()))

    def forward(self, embedded: Tensor, sequences: Sequences, *, need_weights: bool = False) -> EncoderOutput:
        return self.gru(self.scale * embedded, sequences)


class Faulty(_GRU):
    """A GRU with NaN or Inf in the states or gradients of one micro-batch of some updates, with the seed 1.

    A validation after an update has the next numbers of micro-batches.
    """

    class Config(seq2attn.Config):
        kind: str
        updates: tuple[int, ...] = ()
        micro_batch: int = 0
        rank: int = 0
        fault_in: Literal["states", "gradients", "one gradient"] = "states"
        value: Literal["nan", "inf"] = "nan"

        def build(self, input_dim: int) -> Faulty:
            return Faulty(self, input_dim)

    def __init__(self, config: Config, input_dim: int) -> None:
        super().__init__(config, input_dim)
        self.extra = torch.nn.Parameter(torch.zeros(8))
        self.update, self.micro_batch = 0, 0

    def forward(self, embedded: Tensor, sequences: Sequences, *, need_weights: bool = False) -> EncoderOutput:
        encoded, value = self.gru(embedded, sequences), float(self.config.value)
        states = encoded.keys + self.extra
        if self.is_faulty():
            if self.config.fault_in == "states":
                states = states * value
            elif self.config.fault_in == "gradients":
                states = _Custom.apply(states, lambda d: d * value)
            else:
                states = encoded.keys + _Custom.apply(self.extra, lambda d: d * value)
        return EncoderOutput(states, states, sequences.mask, encoded.final_state)

    def is_faulty(self) -> bool:
        update, rank = UPDATES.get(torch.initial_seed(), (0, 0))
        if update not in self.config.updates or rank != self.config.rank:
            return False
        self.update, self.micro_batch = update, self.micro_batch + 1 if self.update == update else 0
        return self.micro_batch == self.config.micro_batch


class Forgetful(_GRU):
    """A GRU whose noise is of a generator that no checkpoint has, and no update seeds."""

    class Config(seq2attn.Config):
        kind: str

        def build(self, input_dim: int) -> Forgetful:
            return Forgetful(self, input_dim)

    def __init__(self, config: Config, input_dim: int) -> None:
        super().__init__(config, input_dim)
        self.noise = torch.Generator().manual_seed(7)

    def forward(self, embedded: Tensor, sequences: Sequences, *, need_weights: bool = False) -> EncoderOutput:
        noise = torch.randn(embedded.shape, generator=self.noise) if self.training else 0.0
        return self.gru(embedded + noise, sequences)


class OutOfMemory(_GRU):
    """A GRU that runs out of memory for large batches, after `spares` of them: training tries these first."""

    class Config(seq2attn.Config):
        kind: str
        max_rows: int = 1000
        max_length: int = 1000
        """Of the source, with EOS."""
        backward: bool = False
        """Fail in the backward pass, when some gradients are computed already."""
        error: Literal["cuda", "cpu", "python"] = "cuda"
        spares: int = 2
        updates: tuple[int, ...] | None = None
        """The only updates with too little memory, with the seed 1; none: all."""

        def build(self, input_dim: int) -> OutOfMemory:
            return OutOfMemory(self, input_dim)

    def __init__(self, config: Config, input_dim: int) -> None:
        super().__init__(config, input_dim)
        self.spares = config.spares

    def forward(self, embedded: Tensor, sequences: Sequences, *, need_weights: bool = False) -> EncoderOutput:
        encoded, update = self.gru(embedded, sequences), UPDATES.get(torch.initial_seed(), (0, 0))[0]
        if self.config.updates is not None and update not in self.config.updates:
            return encoded
        if self.training and (len(embedded) > self.config.max_rows or embedded.size(1) > self.config.max_length):
            self.spares -= 1
            if self.spares < 0:
                if not self.config.backward:
                    self.fail()
                states = _Custom.apply(encoded.keys, self.fail)
                return EncoderOutput(states, states, sequences.mask, encoded.final_state)
        return encoded

    def fail(self, *_: Tensor) -> None:
        if self.config.error == "cuda":
            raise torch.OutOfMemoryError("CUDA out of memory")
        if self.config.error == "python":
            raise MemoryError
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried")
