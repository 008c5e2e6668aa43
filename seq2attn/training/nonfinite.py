"""Updates whose loss or gradient is NaN or infinite: skipped, counted, and after several in a row an error."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from seq2attn.data.corpus import read_text_pairs
from seq2attn.data.training_set import TrainingSet
from seq2attn.errors import UserError
from seq2attn.io.terminal import plural, shorten
from seq2attn.training.metrics_logger import Session, format_few_lines
from seq2attn.training.train_state import AttemptedUpdate, TrainState

SYNC_EVERY = {"cpu": 1, "cuda": 32}
"""Maximum number of updates between two synchronizations with the device, at each of which the host waits."""
MAX_SHOWN_PAIRS, MAX_SHOWN_CHARACTERS = 3, 80
"""Number of pairs in the error, and of characters of each side."""


class DivergedError(UserError):
    """Diverged training: too many skipped updates in a row, or weights or a dev loss that are not finite."""


class NonFiniteGuard:
    """Skips updates whose loss or gradient is not finite, and counts them.

    Fused Adam and SGD without momentum skip on the device through `found_inf`, as with PyTorch's GradScaler, so the
    host need not synchronize. Other optimizers do not support it, and SGD initializes its momentum from the first
    gradient even if that is NaN: for them the flag is read before each step.
    """

    def __init__(self, max_skips: int, optimizer: torch.optim.Optimizer, session: Session) -> None:
        self.max_skips = max_skips
        self.optimizer = optimizer
        self.session = session
        self.uses_found_inf = bool(optimizer.defaults.get("fused")) and not optimizer.defaults.get("momentum")
        self.sync_every = SYNC_EVERY[session.distributed.device.type] if self.uses_found_inf else 1
        self.pending: list[AttemptedUpdate] = []
        self.last_update: AttemptedUpdate | None = None
        self.first_skipped: AttemptedUpdate | None = None  # of those in a row, in this session

    def admits(self, attempt: AttemptedUpdate) -> bool:
        """False if this update must be skipped by the caller.

        True otherwise, also where `found_inf` lets the optimizer skip it on the device.
        """
        self.last_update = attempt
        self.pending.append(attempt)
        if self.uses_found_inf:
            self.optimizer.found_inf = attempt.is_nonfinite  # type: ignore[attr-defined]
            return True
        return not attempt.is_nonfinite

    @property
    def should_sync(self) -> bool:
        """True if no more updates may be pending."""
        return len(self.pending) >= self.sync_every

    def sync(self, state: TrainState) -> TrainState:
        """The state without the target tokens of updates skipped since the last call, which are counted in it."""
        attempts, self.pending = self.pending, []
        flags = torch.stack([attempt.is_nonfinite for attempt in attempts]).tolist() if attempts else []
        for attempt, is_nonfinite in zip(attempts, flags, strict=True):
            if not is_nonfinite:
                state = replace(state, consecutive_skips=0)
                self.first_skipped = None
                continue
            state = replace(
                state,
                consecutive_skips=state.consecutive_skips + 1,
                num_skipped=state.num_skipped + 1,
                target_tokens=state.target_tokens - int(attempt.num_target_tokens),
            )
            self.first_skipped = self.first_skipped or attempt
            self._log(attempt)
            if state.consecutive_skips >= self.max_skips:
                break
        return state

    def _log(self, attempt: AttemptedUpdate) -> None:
        rows, loss, norm = self._all_rows(attempt), float(attempt.loss), float(attempt.grad_norm)
        metrics = {"loss": loss, "gradient_norm": norm, "learning_rate": attempt.lr}
        self.session.logger.log_metrics("skipped", attempt.update, metrics, rows)
        self.session.logger.log(
            f"update {attempt.update} skipped: loss {loss:.6g}, gradient norm {norm:.6g}; pairs: "
            + format_few_lines(rows)
        )

    def _all_rows(self, attempt: AttemptedUpdate) -> list[int]:
        """The pairs of all processes."""
        return [row for rows in self.session.distributed.all_gather(attempt.rows.tolist()) for row in rows]

    def divergence_error(self, skips: int, train: TrainingSet, resumable: int | None) -> DivergedError:
        """The error that ends a training, with update, learning rate, loss and the longest pairs of the batch.

        `skips` updates in a row were skipped; 0 if weights or dev loss are not finite. `resumable` is the update of the
        last checkpoint without skipped updates.
        """
        reason = f"{plural(skips, 'update')} in a row had a loss or gradient that is not finite"
        message = f"training has diverged: {reason if skips else 'weights or dev loss are not finite'}."
        first = self.first_skipped or self.last_update
        if first is not None:
            message += (
                f" Update {first.update:,}: loss {float(first.loss):.6g}, gradient norm {float(first.grad_norm):.6g},"
                f" learning rate {first.lr:.6g}."
            )
        message += (
            " Try a lower `training.optimizer.lr`, a longer warm-up in `training.lr_schedule`, or a lower"
            " `training.max_grad_norm`."
        )
        if resumable is None:
            message += " No checkpoint was saved: remove the run directory or set another `run_dir` to start again."
        else:
            message += f" The checkpoint of update {resumable:,} is valid: `train --resume` continues from it."
        if first is not None:
            pairs = _format_longest(self._all_rows(first), train)
            message += "\n".join([" The longest pairs of the batch:", *pairs])
        return DivergedError(message)


def all_finite(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> bool:
    """True if no weight, and no tensor of the optimizer on the same device, is NaN or infinite."""
    state = [value for values in optimizer.state.values() for value in values.values() if isinstance(value, Tensor)]
    device = next(model.parameters()).device
    tensors = [*model.parameters(), *(tensor for tensor in state if tensor.device == device)]
    return bool(torch.stack([tensor.isfinite().all() for tensor in tensors]).all())


def _format_longest(rows: Sequence[int], train: TrainingSet) -> list[str]:
    lengths = train.corpus.lengths.max(axis=1)
    longest = sorted(rows, key=lambda row: -lengths[row])[:MAX_SHOWN_PAIRS]
    texts = {row: text for row, text in enumerate(read_text_pairs(train.text_path)) if row in longest}
    return [
        f"  {train.text_path}:{row + 1} ({plural(lengths[row], 'token')})\n    "
        + "\n    ".join(shorten(text, MAX_SHOWN_CHARACTERS) for text in texts[row])
        for row in longest
    ]
