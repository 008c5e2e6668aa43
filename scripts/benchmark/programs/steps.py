"""Profile of training steps: `seq2attn train` in this process, with timers at the calls of its modules.

steps CONFIG UPDATES WARM [--set KEY=VALUE ...]: prints JSON with the seconds of each part in UPDATES updates after
WARM ones, and their target tokens.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

from seq2attn.attention.attention import Attention
from seq2attn.config.load import load
from seq2attn.data.collate import IGNORE_INDEX, Batch
from seq2attn.decoders.base import Decoder
from seq2attn.encoders.base import Encoder
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.models import Seq2Seq
from seq2attn.training.train import train

PARTS: tuple[tuple[type[nn.Module], str], ...] = (
    (Attention, "attention"),
    (Encoder, "encoder"),
    (Decoder, "decoder"),
    (Seq2Seq, "embeddings"),
    (TrainingLoss, "output layer and loss"),
)
DATA, BACKWARD, OPTIMIZER = "data and reports", "backward", "clipping and optimiser"


class DoneError(Exception):
    """The end of the profile."""


class Clock:
    """Seconds of each part; the time of a nested part does not count for the outer part."""

    def __init__(self, updates: int, warm: int) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.open = [DATA]
        self.last = time.perf_counter()
        self.update, self.updates, self.warm = 0, updates, warm
        self.num_tokens = 0

    def enter(self, part: str) -> None:
        """Start a part."""
        self._record()
        self.open.append(part)

    def leave(self) -> None:
        """End a part."""
        self._record()
        self.open.pop()

    def switch(self, part: str) -> None:
        """Change the outermost part."""
        self._record()
        self.open[:] = [part]

    def end_update(self) -> None:
        """End an update. Raises DoneError after the last."""
        self.switch(DATA)
        self.update += 1
        if self.update == self.warm:
            self.seconds.clear()
            self.num_tokens = 0
        if self.update == self.warm + self.updates:
            raise DoneError

    def _record(self) -> None:
        now = time.perf_counter()
        self.seconds[self.open[-1]] += now - self.last
        self.last = now


def part_of(module: nn.Module) -> str | None:
    """The part of a module; None for other modules."""
    return next((name for cls, name in PARTS if isinstance(module, cls)), None)


def set_up(clock: Clock) -> None:
    """Register hooks at all modules, at `backward`, and at the optimizer's step."""

    def before(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        if (part := part_of(module)) is not None:
            clock.enter(part)
        if isinstance(module, TrainingLoss):
            batch: Batch = arguments[0]
            clock.num_tokens += int((batch.labels != IGNORE_INDEX).sum())

    def after(module: nn.Module, arguments: tuple[Any, ...], result: Any) -> None:
        if part_of(module) is not None:
            clock.leave()

    def after_step(optimizer: torch.optim.Optimizer, arguments: Any, options: Any) -> None:
        clock.end_update()

    backward: Any = torch.Tensor.backward

    def timed_backward(tensor: Tensor, *arguments: Any, **options: Any) -> None:
        clock.switch(BACKWARD)
        backward(tensor, *arguments, **options)
        clock.switch(OPTIMIZER)

    register_module_forward_pre_hook(before)
    register_module_forward_hook(after)
    torch.Tensor.backward = timed_backward  # type: ignore[method-assign, assignment]
    register_optimizer_step_post_hook(after_step)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("updates", type=int)
    parser.add_argument("warm", type=int)
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    clock = Clock(options.updates, options.warm)
    set_up(clock)
    with contextlib.suppress(DoneError):
        train(load(options.config, ExperimentConfig, options.set))
    output = {"seconds": dict(clock.seconds), "updates": options.updates, "words": clock.num_tokens}
    print(json.dumps(output))


if __name__ == "__main__":
    main()
