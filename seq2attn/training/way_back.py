"""Where a training that has diverged goes back to: its last validation that was well, or how it began."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from seq2attn.training.checkpoint import TrainState, checkpoint_folders, remove, resume
from seq2attn.training.distributed import World
from seq2attn.training.kept import go_back
from seq2attn.training.report import Reporter


@dataclass
class WayBack:
    """The way back, for a model and its optimiser in the midst of training."""

    run: Path
    model: nn.Module
    optimizer: torch.optim.Optimizer
    world: World
    reporter: Reporter
    begin: Callable[[], nn.Module]  # a model as training began with it

    def take(self) -> TrainState:
        """Put model and optimiser back, and tell where they stood."""
        checkpoint = go_back(self.run, self.reporter.note, leads=self.world.leads)
        state = resume(checkpoint, self.model, self.optimizer) if checkpoint else self._begin()
        self.world.wait()  # none is pruned that another process still reads
        return state

    def _begin(self) -> TrainState:
        self.model.load_state_dict(self.begin().state_dict())
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": {}, "param_groups": groups})
        if self.world.leads:
            for folder in checkpoint_folders(self.run):  # what they tell is undone
                remove(folder)
        return TrainState()
