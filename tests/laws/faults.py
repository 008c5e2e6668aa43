"""Parts that go wrong when they are told to, for trainings that must survive it: `kind: tests.laws.faults:Faulty`."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

import seq2attn
from seq2attn.encoders import Encoder, EncoderOutput
from seq2attn.encoders.recurrent import RecurrentEncoderConfig
from seq2attn.training.trainer import derive_seed

UPDATES = {derive_seed(1, update, rank): (update, rank) for update in range(1, 100) for rank in range(2)}
"""Which update it is, and in which process, is told by the seed that training sets for each."""


class Faulty(Encoder):
    """A GRU whose sums, or their gradients, are spoilt in one part of some updates."""

    class Config(seq2attn.Config):
        kind: str
        updates: tuple[int, ...] = ()
        part: int = 0
        rank: int = 0
        spoils: Literal["states", "gradients", "one gradient"] = "states"
        value: Literal["nan", "inf"] = "nan"

        def build(self, input_dim: int) -> Faulty:
            return Faulty(self, input_dim)

    def __init__(self, config: Config, input_dim: int) -> None:
        super().__init__()
        self.config, self.gru = config, RecurrentEncoderConfig(kind="gru", dim=8).build(input_dim)
        self.extra = torch.nn.Parameter(torch.zeros(8))
        self.key_dim, self.value_dim, self.final_dim = (
            self.gru.key_dim,
            self.gru.value_dim,
            self.gru.final_dim,
        )
        self.before, self.part = 0, 0  # which part this is, is not told: they are counted

    def forward(self, words: Tensor, mask: Tensor) -> EncoderOutput:
        found = self.gru(words, mask)
        states = found.keys + self.extra
        if self.is_now():
            if self.config.spoils == "states":
                states = states * float(self.config.value)
            elif self.config.spoils == "gradients":
                states = _Spoilt.apply(states, float(self.config.value))
            else:
                states = found.keys + _Spoilt.apply(self.extra, float(self.config.value))
        return EncoderOutput(states, states, mask, found.final_state)

    def is_now(self) -> bool:
        update, rank = UPDATES.get(torch.initial_seed(), (0, 0))
        if not self.training or update not in self.config.updates or rank != self.config.rank:
            return False
        self.before, self.part = update, self.part + 1 if self.before == update else 0
        return self.part == self.config.part


class _Spoilt(torch.autograd.Function):
    """x, whose gradient is a number times what it should be."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, value: float) -> Tensor:
        ctx.value = value
        return x.clone()

    @staticmethod
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor, None]:
        return d * ctx.value, None


class Drifting(Encoder):
    """A GRU with a weight that moves by one rate at each update, and spoils all beyond a limit.

    So a training goes wrong after some updates, with half the rate after twice as many, and again when it is repeated.
    """

    class Config(seq2attn.Config):
        kind: str
        limit: float
        tried: bool = False
        """Whether it spoils what it is tried with, too, not only what it learns from."""

        def build(self, input_dim: int) -> Drifting:
            return Drifting(self, input_dim)

    def __init__(self, config: Config, input_dim: int) -> None:
        super().__init__()
        self.config, self.gru = config, RecurrentEncoderConfig(kind="gru", dim=8).build(input_dim)
        self.drift = torch.nn.Parameter(torch.zeros(()))
        self.key_dim, self.value_dim, self.final_dim = (
            self.gru.key_dim,
            self.gru.value_dim,
            self.gru.final_dim,
        )

    def forward(self, words: Tensor, mask: Tensor) -> EncoderOutput:
        found = self.gru(words, mask)
        states = _Drift.apply(found.keys, self.drift)
        if (self.training or self.config.tried) and float(self.drift.detach()) < -self.config.limit:
            states = states * float("nan")
        return EncoderOutput(states, states, mask, found.final_state)


class _Drift(torch.autograd.Function):
    """x, and a gradient of one for the drift."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, drift: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor, Tensor]:
        return d, d.new_ones(())


class Narrow(Encoder):
    """A GRU on a machine that holds so many rows at once, from the second time on that it is asked for more."""

    class Config(seq2attn.Config):
        kind: str
        rows: int = 1000
        """Most rows that it holds."""
        longest: int = 1000
        """The longest source, with its end."""
        backward: bool = False
        """Whether it runs out in the midst of the backward pass, when some gradients are there already."""
        error: Literal["cuda", "cpu", "python"] = "cuda"
        spares: int = 2
        """How often it holds more all the same: training tries its largest batches before it begins."""

        def build(self, input_dim: int) -> Narrow:
            return Narrow(self, input_dim)

    def __init__(self, config: Config, input_dim: int) -> None:
        super().__init__()
        self.config, self.gru = config, RecurrentEncoderConfig(kind="gru", dim=8).build(input_dim)
        self.key_dim, self.value_dim, self.final_dim = (
            self.gru.key_dim,
            self.gru.value_dim,
            self.gru.final_dim,
        )
        self.spares = config.spares

    def forward(self, words: Tensor, mask: Tensor) -> EncoderOutput:
        found = self.gru(words, mask)
        if self.training and (len(words) > self.config.rows or words.size(1) > self.config.longest):
            self.spares -= 1
            if self.spares < 0:
                if not self.config.backward:
                    raise out_of_memory(self.config.error)
                states = _Full.apply(found.keys, self.config.error)
                return EncoderOutput(states, states, mask, found.final_state)
        return found


class _Full(torch.autograd.Function):
    """x, for whose gradient there is no memory."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, error: str) -> Tensor:
        ctx.error = error
        return x.clone()

    @staticmethod
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor, None]:
        raise out_of_memory(ctx.error)


def out_of_memory(kind: str) -> Exception:
    """What PyTorch and Python raise when memory is short."""
    if kind == "cuda":
        return torch.OutOfMemoryError("CUDA out of memory")
    if kind == "python":
        return MemoryError()
    return RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried")
