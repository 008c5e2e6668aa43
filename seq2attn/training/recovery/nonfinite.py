"""Updates whose loss or gradient is not finite: skipped, counted, and after several in a row an error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2attn.data.batch_planner import Indices
from seq2attn.data.text_store import read_texts
from seq2attn.data.training_set import TrainingData
from seq2attn.errors import UserError
from seq2attn.training.distributed import World
from seq2attn.training.metrics_logger import Reporter
from seq2attn.training.train_state import TrainState

LOOK = {"cpu": 1, "cuda": 32}
"""After how many updates it is looked at which were sound, at the latest: on a card, to look is to wait for it."""
MOST = 700.0
"""The loss of a word, in nats, beyond which its perplexity is no finite number."""
SHOWN = 12
"""How many sentences a line for people names."""
PAIRS, WIDTH = 3, 80
"""Pairs that the error shows, and characters of each side."""


class DivergedError(UserError):
    """Training that cannot go on: too many skipped updates in a row, or weights or a dev loss that are not finite."""


@dataclass(frozen=True)
class Tried:
    """An update that was made, or skipped because it was unsound."""

    update: int
    rate: float
    rows: Indices  # the pairs that this process learnt from
    words: float  # of all processes
    loss: Tensor  # [] a word, of all processes
    norm: Tensor  # [] of the gradient
    unsound: Tensor  # [] 1 or 0


@dataclass(frozen=True)
class Skipped:
    """The numbers of a skipped update, or of the last one, as they are reported."""

    update: int
    rate: float
    rows: tuple[int, ...]  # the pairs that all processes learnt from
    loss: float
    norm: float


class Watch:
    """Lets the optimiser learn from sound gradients only, and counts the others.

    Adam and plain SGD are told on the device, in the way of PyTorch's GradScaler, so that nobody waits for a card. The
    other optimisers cannot be told, and momentum that was never made is made of anything: for these it is looked first.
    """

    def __init__(
        self, max_skips: int, optimizer: torch.optim.Optimizer, world: World, reporter: Reporter
    ) -> None:
        self.max_skips, self.optimizer = max_skips, optimizer
        self.world, self.reporter = world, reporter
        self.tells = bool(optimizer.defaults.get("fused")) and not optimizer.defaults.get("momentum")
        self.patience = LOOK[world.device.type] if self.tells else 1
        self.unseen: list[Tried] = []
        self.last: Tried | None = None
        self.row: list[Skipped] = []  # those in a row, as far as this sitting saw them
        self.lost = False  # whether there were so many in a row that training ends

    def step(self, tried: Tried) -> None:
        """Change the weights by their gradients, if these are sound."""
        self.last = tried
        self.unseen.append(tried)
        if self.tells:
            self.optimizer.found_inf = tried.unsound  # type: ignore[attr-defined]
            self.optimizer.step()
        elif not tried.unsound:
            self.optimizer.step()

    @property
    def should_look(self) -> bool:
        """Whether nobody has looked for long enough."""
        return len(self.unseen) >= self.patience

    def look(self, state: TrainState) -> float:
        """Count into `state` what was skipped since the last look; how many target words that was."""
        tried, self.unseen = self.unseen, []
        words = 0.0
        flags = torch.stack([one.unsound for one in tried]).tolist() if tried else []
        for one, flag in zip(tried, flags, strict=True):
            if not flag:
                state.in_a_row = 0
                self.row.clear()
                continue
            state.in_a_row, state.skipped = state.in_a_row + 1, state.skipped + 1
            words += one.words
            self.row.append(self._told(one))
            if state.in_a_row >= self.max_skips:
                self.lost = True
                break
        return words

    def blamed(self, state: TrainState) -> Skipped:
        """The first of the unsound updates in a row, or the last update if there are none."""
        if self.row:
            return self.row[0]
        if self.last is None:
            return Skipped(state.update, math.nan, (), math.nan, math.nan)
        return self._seen(self.last)

    def _seen(self, tried: Tried) -> Skipped:
        rows = tuple(int(row) for part in self.world.gather(tried.rows.tolist()) for row in part)
        return Skipped(tried.update, tried.rate, rows, float(tried.loss), float(tried.norm))

    def _told(self, tried: Tried) -> Skipped:
        seen = self._seen(tried)
        numbers = {"loss": seen.loss, "gradient_norm": seen.norm, "learning_rate": seen.rate}
        self.reporter.measure("skipped", seen.update, {**numbers, "lines": lines_of(seen.rows)})
        self.reporter.say(
            f"update {seen.update} skipped: loss {seen.loss:.6g}, gradient norm {seen.norm:.6g}; it was to learn from "
            + named(seen.rows)
        )
        return seen


def unsound(loss: Tensor, norm: Tensor) -> Tensor:
    """1 where the loss of a word or the norm of the gradient cannot be used, else 0: [], [] -> []"""
    return (~(norm.isfinite() & (loss.abs() <= MOST))).float()


def is_usable(loss: float) -> bool:
    """Whether the loss of a word is a number that may be learnt from or compared."""
    return abs(loss) <= MOST


def are_finite(tensors: Sequence[Tensor]) -> bool:
    """Whether they hold numbers and nothing else."""
    found = [tensor.isfinite().all() for tensor in tensors]
    return not found or bool(torch.stack(found).all())


def learnt(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """All that training has changed."""
    kept = [value for one in optimizer.state.values() for value in one.values() if isinstance(value, Tensor)]
    device = next(model.parameters()).device
    return [*model.parameters(), *(tensor for tensor in kept if tensor.device == device)]


def diverged(blamed: Skipped, skips: int, train: TrainingData, resumable: int | None) -> DivergedError:
    """Error that ends a training, with update, rate, loss and the longest pairs of the batch.

    `skips` updates in a row were skipped, from `blamed` on; none where weights or dev loss are not finite.
    `resumable` is the update of the last sound checkpoint.
    """
    why = (
        f"{skips} updates in a row had a loss or gradient that is not finite"
        if skips
        else "weights or dev loss are not finite"
    )
    saved = (
        f"The checkpoint of update {resumable:,} is sound: `train --resume` goes on from it with another rate"
        if resumable is not None
        else "No checkpoint was saved; remove the run, or give another `run`, to begin anew"
    )
    return DivergedError(
        f"training has diverged: {why}. Update {blamed.update:,}: loss {blamed.loss:.6g}, gradient norm "
        f"{blamed.norm:.6g}, learning rate {blamed.rate:.6g}. Try a lower `training.optimizer.rate`, a longer warm-up "
        f"in `training.schedule`, or a lower `training.clip`. {saved}. The longest pairs of the batch:\n"
        + "\n".join(_longest(blamed.rows, train))
    )


def _longest(rows: Sequence[int], train: TrainingData) -> list[str]:
    lengths = train.corpus.lengths.max(axis=1)
    longest = sorted(rows, key=lambda row: -lengths[row])[:PAIRS]
    texts = {row: text for row, text in enumerate(read_texts(train.texts)) if row in longest}
    return [
        f"  {train.texts}:{row + 1} ({lengths[row]} tokens)\n    " + "\n    ".join(map(_cut, texts[row]))
        for row in longest
    ]


def _cut(text: str) -> str:
    return text if len(text) <= WIDTH else text[: WIDTH - 2] + " …"


def lines_of(rows: Sequence[int] | Indices) -> str:
    """The lines of data/train.jsonl in which pairs stand."""
    return " ".join(str(int(row) + 1) for row in rows)


def named(rows: Sequence[int] | Indices) -> str:
    """Pairs, as a line for people names them."""
    few = ", ".join(str(int(row) + 1) for row in rows[:SHOWN])
    more = f" and {len(rows) - SHOWN} more (metrics.jsonl names all)" if len(rows) > SHOWN else ""
    return f"line{'s' if len(rows) > 1 else ''} {few} of data/train.jsonl{more}"
