"""Where a training step's time goes: `seq2attn train` in this process, with a clock at the doors of its modules.

steps CONFIG UPDATES WARM [--set KEY=VALUE ...]: prints a JSON object, seconds of each part in UPDATES updates after
WARM ones, and the target tokens learnt in them.
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

from seq2attn.attention import Attention
from seq2attn.config.load import load
from seq2attn.data.collate import IGNORE_INDEX, Batch
from seq2attn.decoders import Decoder
from seq2attn.encoders import Encoder
from seq2attn.experiment import ExperimentConfig
from seq2attn.models import Seq2Seq
from seq2attn.training.loss import TrainingLoss
from seq2attn.training.train import train

PARTS: tuple[tuple[type[nn.Module], str], ...] = (
    (Attention, "attention"),
    (Encoder, "encoder"),
    (Decoder, "decoder"),
    (Seq2Seq, "embeddings"),
    (TrainingLoss, "output layer and loss"),
)
DATA, BACKWARD, OPTIMISER = "data and reports", "backward", "clipping and optimiser"


class EnoughError(Exception):
    """As many updates as were asked for are over."""


class Clock:
    """Time goes to the innermost part that is open; a part that opens inside another stops the other's clock."""

    def __init__(self, updates: int, warm: int) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.open = [DATA]
        self.last = time.perf_counter()
        self.update, self.updates, self.warm = 0, updates, warm
        self.words = 0

    def enter(self, part: str) -> None:
        """From now on it is this part's time."""
        self._give()
        self.open.append(part)

    def leave(self) -> None:
        """It is again the time of the part around it."""
        self._give()
        self.open.pop()

    def turn(self, part: str) -> None:
        """The outermost part is another one now."""
        self._give()
        self.open[:] = [part]

    def learnt(self) -> None:
        """An update is over. Raises EnoughError after the last."""
        self.turn(DATA)
        self.update += 1
        if self.update == self.warm:
            self.seconds.clear()
            self.words = 0
        if self.update == self.warm + self.updates:
            raise EnoughError

    def _give(self) -> None:
        now = time.perf_counter()
        self.seconds[self.open[-1]] += now - self.last
        self.last = now


def part_of(module: nn.Module) -> str | None:
    """The part that a module is, if it is one."""
    return next((name for kind, name in PARTS if isinstance(module, kind)), None)


def set_up(clock: Clock) -> None:
    """Hooks of PyTorch's own at every module, at `backward`, and at the optimiser's step."""

    def before(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        if (part := part_of(module)) is not None:
            clock.enter(part)
        if isinstance(module, TrainingLoss):
            batch: Batch = arguments[0]
            clock.words += int((batch.labels != IGNORE_INDEX).sum())

    def after(module: nn.Module, arguments: tuple[Any, ...], result: Any) -> None:
        if part_of(module) is not None:
            clock.leave()

    def over(optimizer: torch.optim.Optimizer, arguments: Any, options: Any) -> None:
        clock.learnt()

    backward: Any = torch.Tensor.backward

    def timed_backward(tensor: Tensor, *arguments: Any, **options: Any) -> None:
        clock.turn(BACKWARD)
        backward(tensor, *arguments, **options)
        clock.turn(OPTIMISER)

    register_module_forward_pre_hook(before)
    register_module_forward_hook(after)
    torch.Tensor.backward = timed_backward  # type: ignore[method-assign, assignment]
    register_optimizer_step_post_hook(over)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("updates", type=int)
    parser.add_argument("warm", type=int)
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    clock = Clock(options.updates, options.warm)
    set_up(clock)
    with contextlib.suppress(EnoughError):
        train(load(options.config, ExperimentConfig, options.set))
    found = {"seconds": dict(clock.seconds), "updates": options.updates, "words": clock.words}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
