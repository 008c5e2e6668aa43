"""What has been learnt from since the last report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2attn.training.distributed import DistributedContext
from seq2attn.training.gradient_accumulation import LossSums

SUMMED_METRICS = ("loss", "negative_log_likelihood", "guided_alignment", "num_guided_tokens")


@dataclass
class TrainMetrics:
    """Sums of this process, on its device: reading them waits for it."""

    loss: Tensor  # [] summed over words
    negative_log_likelihood: Tensor  # [] summed over words
    guided_alignment: Tensor  # [2] of the links: summed, and over how many words
    grad_norm: Tensor  # [] of the last update's gradient
    lr: float = 0.0  # of the last update
    num_target_tokens: float = 0.0  # of all processes
    seconds: float = 0.0

    def update(self, sums: LossSums, norm: Tensor, unsound: Tensor) -> None:
        """Count an update's sums and norm, unless it is unsound: 1, not 0."""
        skipped = unsound.bool()
        self.loss = torch.where(skipped, self.loss, sums.loss)
        self.negative_log_likelihood = torch.where(
            skipped, self.negative_log_likelihood, sums.negative_log_likelihood
        )
        self.guided_alignment = torch.where(skipped, self.guided_alignment, sums.guided_alignment)
        self.grad_norm = torch.where(skipped, self.grad_norm, norm)

    def state_dict(self) -> dict[str, float]:
        """Its content, exactly, as a checkpoint between two reports keeps it."""
        guided, num_guided_tokens = self.guided_alignment.tolist()
        return {
            "loss": float(self.loss),
            "negative_log_likelihood": float(self.negative_log_likelihood),
            "guided_alignment": guided,
            "num_guided_tokens": num_guided_tokens,
            "grad_norm": float(self.grad_norm),
            "lr": self.lr,
            "num_target_tokens": self.num_target_tokens,
            "seconds": self.seconds,
        }


def zero_metrics(device: torch.device) -> TrainMetrics:
    """Nothing yet."""
    zero = torch.zeros((), device=device)
    return TrainMetrics(zero.clone(), zero.clone(), zero.repeat(2), zero)


def restore_metrics(kept: Sequence[Mapping[str, float]], world: DistributedContext) -> TrainMetrics:
    """This process's of the `numbers` that all had; where there are other processes now, the first has all sums."""
    if not kept:
        return zero_metrics(world.device)
    mine = dict(kept[world.rank % len(kept)])
    if len(kept) != world.size:
        mine |= {
            name: sum(each[name] for each in kept) if world.is_main_process else 0.0
            for name in SUMMED_METRICS
        }

    def tensor(*names: str) -> Tensor:
        return torch.tensor([mine[name] for name in names], dtype=torch.float32, device=world.device)

    return TrainMetrics(
        tensor("loss")[0],
        tensor("negative_log_likelihood")[0],
        tensor("guided_alignment", "num_guided_tokens"),
        tensor("grad_norm")[0],
        mine["lr"],
        mine["num_target_tokens"],
        mine["seconds"],
    )
