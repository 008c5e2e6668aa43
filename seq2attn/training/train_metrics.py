"""What has been learnt from since the last report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2attn.training.distributed import World
from seq2attn.training.gradient_accumulation import Sums

SUMS = ("objective", "likelihood", "guided", "guided_words")


@dataclass
class Tally:
    """Sums of this process, on its device: reading them waits for it."""

    objective: Tensor  # [] summed over words
    likelihood: Tensor  # [] summed over words
    guided: Tensor  # [2] of the links: summed, and over how many words
    norm: Tensor  # [] of the last update's gradient
    rate: float = 0.0  # of the last update
    words: float = 0.0  # of all processes
    seconds: float = 0.0

    def take(self, sums: Sums, norm: Tensor, unsound: Tensor) -> None:
        """Count an update's sums and norm, unless it is unsound: 1, not 0."""
        skipped = unsound.bool()
        self.objective = torch.where(skipped, self.objective, sums.objective)
        self.likelihood = torch.where(skipped, self.likelihood, sums.likelihood)
        self.guided = torch.where(skipped, self.guided, sums.guided)
        self.norm = torch.where(skipped, self.norm, norm)

    def numbers(self) -> dict[str, float]:
        """Its content, exactly, as a checkpoint between two reports keeps it."""
        guided, guided_words = self.guided.tolist()
        return {
            "objective": float(self.objective),
            "likelihood": float(self.likelihood),
            "guided": guided,
            "guided_words": guided_words,
            "norm": float(self.norm),
            "rate": self.rate,
            "words": self.words,
            "seconds": self.seconds,
        }


def empty_tally(device: torch.device) -> Tally:
    """Nothing yet."""
    zero = torch.zeros((), device=device)
    return Tally(zero.clone(), zero.clone(), zero.repeat(2), zero)


def kept_tally(kept: Sequence[Mapping[str, float]], world: World) -> Tally:
    """This process's of the `numbers` that all had; where there are other processes now, the first has all sums."""
    if not kept:
        return empty_tally(world.device)
    mine = dict(kept[world.rank % len(kept)])
    if len(kept) != world.size:
        mine |= {name: sum(each[name] for each in kept) if world.leads else 0.0 for name in SUMS}

    def tensor(*names: str) -> Tensor:
        return torch.tensor([mine[name] for name in names], dtype=torch.float32, device=world.device)

    return Tally(
        tensor("objective")[0],
        tensor("likelihood")[0],
        tensor("guided", "guided_words"),
        tensor("norm")[0],
        mine["rate"],
        mine["words"],
        mine["seconds"],
    )
