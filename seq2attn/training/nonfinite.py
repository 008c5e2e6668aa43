"""Updates whose loss or gradient is not finite: skipped, counted, and after several in a row an error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2attn.data.batch_planner import Indices
from seq2attn.data.corpus import read_text_pairs
from seq2attn.data.training_set import TrainingSet
from seq2attn.errors import UserError
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.metrics_logger import MetricsLogger
from seq2attn.training.train_state import TrainState

SYNC_EVERY = {"cpu": 1, "cuda": 32}
"""Updates between two synchronizations with the device, at most: on a GPU the host waits for each."""
MAX_LOSS = 700.0
"""The loss per token, in nats, beyond which perplexity is not finite."""
MAX_SHOWN_LINES = 12
"""Number of lines that a log message names."""
PAIRS, MAX_SHOWN_CHARACTERS = 3, 80
"""Pairs that the error shows, and characters of each side."""


class DivergedError(UserError):
    """Training that cannot go on: too many skipped updates in a row, or weights or a dev loss that are not finite."""


@dataclass(frozen=True)
class AttemptedUpdate:
    """An update that was made, or skipped because it was not finite."""

    update: int
    lr: float
    rows: Indices  # the pairs that this process trained on
    num_target_tokens: float  # of all processes
    loss: Tensor  # [] a word, of all processes
    grad_norm: Tensor  # [] of the gradient
    is_nonfinite: Tensor  # [] 1 or 0


@dataclass(frozen=True)
class SkippedUpdate:
    """The numbers of a skipped update, or of the last one, as they are reported."""

    update: int
    lr: float
    rows: tuple[int, ...]  # the pairs that all processes trained on
    loss: float
    grad_norm: float


class NonFiniteGuard:
    """Skips updates whose loss or gradient is not finite, and counts them.

    Fused Adam and SGD without momentum skip on the device through `found_inf`, as with PyTorch's GradScaler, so the
    host need not synchronize. Other optimizers do not support it, and SGD initializes its momentum from the first
    gradient even if that is NaN: for them the flag is read before each step.
    """

    def __init__(
        self,
        max_skips: int,
        optimizer: torch.optim.Optimizer,
        world: DistributedContext,
        reporter: MetricsLogger,
    ) -> None:
        self.max_skips, self.optimizer = max_skips, optimizer
        self.world, self.reporter = world, reporter
        self.uses_found_inf = bool(optimizer.defaults.get("fused")) and not optimizer.defaults.get("momentum")
        self.sync_every = SYNC_EVERY[world.device.type] if self.uses_found_inf else 1
        self.pending: list[AttemptedUpdate] = []
        self.last_update: AttemptedUpdate | None = None
        self.consecutive_skipped: list[SkippedUpdate] = []  # those in a row, as far as this session saw them
        self.should_roll_back = False  # whether there were so many in a row that training ends

    def step(self, tried: AttemptedUpdate) -> None:
        """The optimizer step, if the gradients are finite."""
        self.last_update = tried
        self.pending.append(tried)
        if self.uses_found_inf:
            self.optimizer.found_inf = tried.is_nonfinite  # type: ignore[attr-defined]
            self.optimizer.step()
        elif not tried.is_nonfinite:
            self.optimizer.step()

    @property
    def should_sync(self) -> bool:
        """Whether as many updates are pending as may be."""
        return len(self.pending) >= self.sync_every

    def sync(self, state: TrainState) -> float:
        """Adds the updates skipped since the last call to `state`. Returns their number of target tokens."""
        tried, self.pending = self.pending, []
        num_tokens = 0.0
        flags = torch.stack([one.is_nonfinite for one in tried]).tolist() if tried else []
        for one, flag in zip(tried, flags, strict=True):
            if not flag:
                state.consecutive_skips = 0
                self.consecutive_skipped.clear()
                continue
            state.consecutive_skips, state.num_skipped = state.consecutive_skips + 1, state.num_skipped + 1
            num_tokens += one.num_target_tokens
            self.consecutive_skipped.append(self._told(one))
            if state.consecutive_skips >= self.max_skips:
                self.should_roll_back = True
                break
        return num_tokens

    def first_bad_update(self, state: TrainState) -> SkippedUpdate:
        """The first of the skipped updates in a row, or the last update if there are none."""
        if self.consecutive_skipped:
            return self.consecutive_skipped[0]
        if self.last_update is None:
            return SkippedUpdate(state.update, math.nan, (), math.nan, math.nan)
        return self._seen(self.last_update)

    def _seen(self, tried: AttemptedUpdate) -> SkippedUpdate:
        rows = tuple(int(row) for part in self.world.all_gather(tried.rows.tolist()) for row in part)
        return SkippedUpdate(tried.update, tried.lr, rows, float(tried.loss), float(tried.grad_norm))

    def _told(self, tried: AttemptedUpdate) -> SkippedUpdate:
        seen = self._seen(tried)
        numbers = {"loss": seen.loss, "gradient_norm": seen.grad_norm, "learning_rate": seen.lr}
        self.reporter.log_metrics("skipped", seen.update, {**numbers, "lines": format_all_lines(seen.rows)})
        self.reporter.log(
            f"update {seen.update} skipped: loss {seen.loss:.6g}, gradient norm {seen.grad_norm:.6g}; its pairs: "
            + format_few_lines(seen.rows)
        )
        return seen


def nonfinite_flag(loss: Tensor, norm: Tensor) -> Tensor:
    """1 where the loss of a word or the norm of the gradient cannot be used, else 0: [], [] -> []"""
    return (~(norm.isfinite() & (loss.abs() <= MAX_LOSS))).float()


def is_usable_loss(loss: float) -> bool:
    """Whether a loss per token is finite and small enough to be compared."""
    return abs(loss) <= MAX_LOSS


def all_finite(tensors: Sequence[Tensor]) -> bool:
    """Whether they hold numbers and nothing else."""
    found = [tensor.isfinite().all() for tensor in tensors]
    return not found or bool(torch.stack(found).all())


def trained_tensors(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """All that training has changed."""
    kept = [value for one in optimizer.state.values() for value in one.values() if isinstance(value, Tensor)]
    device = next(model.parameters()).device
    return [*model.parameters(), *(tensor for tensor in kept if tensor.device == device)]


def divergence_error(blamed: SkippedUpdate, skips: int, train: TrainingSet, resumable: int | None) -> DivergedError:
    """Error that ends a training, with update, learning rate, loss and the longest pairs of the batch.

    `skips` updates in a row were skipped, from `blamed` on; none where weights or dev loss are not finite.
    `resumable` is the update of the last checkpoint without skipped updates.
    """
    why = (
        f"{skips} updates in a row had a loss or gradient that is not finite"
        if skips
        else "weights or dev loss are not finite"
    )
    saved = (
        f"The checkpoint of update {resumable:,} is sound: `train --resume` goes on from it with another rate"
        if resumable is not None
        else "No checkpoint was saved; remove the run, or give another `run_dir`, to start again"
    )
    return DivergedError(
        f"training has diverged: {why}. Update {blamed.update:,}: loss {blamed.loss:.6g}, gradient norm "
        f"{blamed.grad_norm:.6g}, learning rate {blamed.lr:.6g}. Try a lower `training.optimizer.lr`, a longer warm-up "
        f"in `training.lr_schedule`, or a lower `training.max_grad_norm`. {saved}. The longest pairs of the batch:\n"
        + "\n".join(_longest(blamed.rows, train))
    )


def _longest(rows: Sequence[int], train: TrainingSet) -> list[str]:
    lengths = train.corpus.lengths.max(axis=1)
    longest = sorted(rows, key=lambda row: -lengths[row])[:PAIRS]
    texts = {row: text for row, text in enumerate(read_text_pairs(train.text_path)) if row in longest}
    return [
        f"  {train.text_path}:{row + 1} ({lengths[row]} tokens)\n    " + "\n    ".join(map(_cut, texts[row]))
        for row in longest
    ]


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[: MAX_SHOWN_CHARACTERS - 2] + " …"


def format_all_lines(rows: Sequence[int] | Indices) -> str:
    """The lines of data/train.jsonl in which pairs stand."""
    return " ".join(str(int(row) + 1) for row in rows)


def format_few_lines(rows: Sequence[int] | Indices) -> str:
    """Pairs, as a line for people names them."""
    few = ", ".join(str(int(row) + 1) for row in rows[:MAX_SHOWN_LINES])
    more = f" and {len(rows) - MAX_SHOWN_LINES} more (metrics.jsonl names all)" if len(rows) > MAX_SHOWN_LINES else ""
    return f"line{'s' if len(rows) > 1 else ''} {few} of data/train.jsonl{more}"
