"""Where a training that has diverged goes back to: its last validation, or how it began."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from seq2attn.errors import RunError
from seq2attn.training.checkpoint import TrainState, checkpoint_folders, remove, resume
from seq2attn.training.distributed import World
from seq2attn.training.kept import go_back
from seq2attn.training.report import Reporter


@dataclass
class WayBack:
    """The state that is safe to go back to."""

    run: Path
    model: nn.Module
    optimizer: torch.optim.Optimizer
    world: World
    reporter: Reporter
    beginning: dict[str, Tensor] | None  # the weights at first, until there is a checkpoint of a validation

    def take(self) -> TrainState:
        """Put model and optimiser back, and tell where they stood.

        Raises: RunError when nothing is left to go back to.
        """
        checkpoint = go_back(self.run, self.reporter.note, leads=self.world.leads)
        if checkpoint is not None:
            state = resume(checkpoint, self.model, self.optimizer)
        elif self.beginning is not None:
            state = self._begin(self.beginning)
        else:
            raise RunError(
                f"{self.run}: training has diverged, and no sound checkpoint is left to go back to"
            )
        self.world.wait()  # none is pruned that another process still reads
        return state

    def _begin(self, weights: dict[str, Tensor]) -> TrainState:
        self.model.load_state_dict(weights)
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": {}, "param_groups": groups})
        if self.world.leads:
            for folder in checkpoint_folders(self.run):  # those of interruptions: what they tell is undone
                remove(folder)
        return TrainState()


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """A copy of a model's weights, where it takes no room on a card."""
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in model.state_dict().items()}
