"""Logs and reports of a training: train.log, metrics.jsonl, samples.txt, a progress bar, TensorBoard.

The files belong to the training: resuming truncates them to their size at the checkpoint. Lines about a session, such
as its start and its end, are marked in train.log and kept.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch
from tqdm import tqdm

from seq2attn.data.batch_planner import Indices
from seq2attn.errors import RunError, UserError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.experiment.training_config import TrainingConfig
from seq2attn.io.files import sync
from seq2attn.io.lock import check_locks
from seq2attn.io.terminal import visible
from seq2attn.losses.training_loss import perplexity
from seq2attn.training.checkpoints.checkpoint import Checkpoint
from seq2attn.training.distributed import DistributedContext, StopRequest
from seq2attn.training.train_state import TrainMetrics, TrainState, describe_speed, zero_metrics
from seq2attn.training.validation import ValidationResult, Validator, format_scores

LOG = logging.getLogger("seq2attn")

METRICS_FILE, LOG_FILE, SAMPLES_FILE = "metrics.jsonl", "train.log", "samples.txt"
SESSION_MARK = "# "
"""Mark of lines about a session, after the time."""
MAX_SHOWN_LINES = 12
"""Number of lines of data/train.jsonl that a log message names."""
MAX_ZEROS = 2
"""Number of validations in a row with BLEU 0.00 that causes a warning."""


class MetricsLogger:
    """Logs of the main process; the other processes write nothing."""

    def __init__(
        self, run: RunDirectory, *, is_main_process: bool, since: Checkpoint | None, tensorboard: bool
    ) -> None:
        self.is_main_process = is_main_process
        self.run = run
        self.tensorboard: Any = None
        if is_main_process:
            if tensorboard:
                self.tensorboard = _tensorboard(run.folder, since.train_state.update if since else 0)
            _truncate_logs(run.folder, since.log_sizes if since else {})
            self._handler = _LogHandler(self)
            LOG.setLevel(logging.INFO)
            LOG.addHandler(self._handler)

    def log(self, text: str) -> None:
        """A log line about the training, the same when it is repeated."""
        if self.is_main_process:
            LOG.info(text)

    def log_session(self, text: str) -> None:
        """A log line about this session."""
        if self.is_main_process:
            LOG.info(text, extra={"mark": SESSION_MARK})

    def log_sizes(self) -> dict[str, int]:
        """Sizes of the files in bytes, after fsync."""
        check_locks(self.run.folder)
        paths = [path for name in (METRICS_FILE, LOG_FILE, SAMPLES_FILE) if (path := self.run.folder / name).is_file()]
        for path in paths:
            sync(path)
        return {path.name: path.stat().st_size for path in paths}

    def log_metrics(
        self, kind: str, update: int, metrics: Mapping[str, float | str], rows: Sequence[int] | Indices | None = None
    ) -> None:
        """A line of metrics.jsonl, with the lines of the pairs at `rows` of the text, and scalars of TensorBoard."""
        if not self.is_main_process:
            return
        # JSON has no numbers that are not finite
        finite = {k: v if isinstance(v, str) or math.isfinite(v) else str(v) for k, v in metrics.items()}
        line = {"kind": kind, "update": update, **finite}
        if rows is not None:
            line["lines"] = " ".join(str(int(row) + 1) for row in rows)
        self.append(METRICS_FILE, json.dumps(line, ensure_ascii=False) + "\n")
        if self.tensorboard is not None:
            for name, value in finite.items():
                if not isinstance(value, str):
                    self.tensorboard.add_scalar(f"{kind}/{name}", value, update)

    def log_samples(self, update: int, text: str) -> None:
        """Sample translations at an update."""
        if self.is_main_process:
            self.append(SAMPLES_FILE, f"== update {update}\n{text}\n")

    def append(self, name: str, text: str) -> None:
        """Append to a file of the run. Raises RunError if it cannot be written."""
        path = self.run.folder / name
        check_locks(path)
        try:
            with path.open("a", encoding="utf-8", newline="\n") as file:
                file.write(text)
        except OSError as error:
            reason = f"({error.strerror}); checkpoints are unchanged, resume with `train --resume`"
            raise RunError(f"{path}: cannot be written {reason}") from None

    def progress_bar(self, epoch: int, updates: int, done: int) -> tqdm[NoReturn]:
        """A progress bar of an epoch, on a terminal of the main process."""
        disable = None if self.is_main_process else True  # None: where there is no terminal
        return tqdm(total=updates, initial=done, desc=f"epoch {epoch}", unit="update", leave=False, disable=disable)

    def close(self) -> None:
        """Close all files."""
        if self.tensorboard is not None:
            self.tensorboard.close()
        if self.is_main_process:
            LOG.removeHandler(self._handler)


@dataclass(frozen=True)
class Session:
    """Values that the parts of a training share in this process."""

    run: RunDirectory
    distributed: DistributedContext
    logger: MetricsLogger
    stop: StopRequest


def report_training(
    session: Session, training: TrainingConfig, state: TrainState, metrics: TrainMetrics
) -> TrainMetrics:
    """Log the means since the last report, over the target tokens of all processes. Returns metrics without updates."""
    if not metrics.num_target_tokens:  # all updates were skipped
        return metrics
    device = session.distributed.device
    loss, likelihood, guided, num_guided = session.distributed.all_reduce_sum(
        float(metrics.loss), float(metrics.negative_log_likelihood), *metrics.guided_alignment.tolist()
    )
    numbers = {
        "epoch": round(state.epochs, 3),
        "target_tokens": state.target_tokens,
        "loss": loss / metrics.num_target_tokens,
        "perplexity": perplexity(likelihood / metrics.num_target_tokens),
        "learning_rate": metrics.lr,
        "gradient_norm": float(metrics.grad_norm),
        "target_tokens_per_second": metrics.num_target_tokens / metrics.seconds,
        "seconds": state.seconds,
    }
    if device.type == "cuda":
        numbers["gpu_memory_mib"] = torch.cuda.max_memory_allocated(device) >> 20
        numbers["gpu_reserved_mib"] = torch.cuda.max_memory_reserved(device) >> 20
    if state.num_skipped:
        numbers["skipped"] = state.num_skipped
    if num_guided:
        numbers["guided_alignment_loss"] = guided / num_guided
    guided_text = f"  guided {numbers['guided_alignment_loss']:.3f}" if num_guided else ""
    session.logger.log_metrics("train", state.update, numbers)
    session.logger.log(
        f"epoch {numbers['epoch']:.2f}  update {state.update}  loss {numbers['loss']:.3f}"
        f"  ppl {numbers['perplexity']:.2f}{guided_text}  lr {numbers['learning_rate']:.3g}"
        f"  {describe_speed(metrics, state, training)}"
    )
    return zero_metrics(device)


def report_validation(
    logger: MetricsLogger, validator: Validator, state: TrainState, result: ValidationResult, *, is_best: bool
) -> None:
    """Log scores and sample translations."""
    progress = {"epoch": round(state.epochs, 3), "target_tokens": state.target_tokens}
    metrics: dict[str, float | str] = {**progress, **result.scores}
    if result.signature is not None:
        metrics["signature"] = result.signature
    logger.log_metrics("validation", state.update, {**metrics, "seconds": state.seconds})
    logger.log(
        f"validation at update {state.update}: {format_scores(result.scores)}"
        f"{' (greedy)' if result.signature else ''}{'  best so far' if is_best else ''}"
    )
    if state.zero_bleu == MAX_ZEROS:
        logger.log(
            "warning: BLEU is 0.00 in two validations while the loss falls, so it does not rank them. If"
            " translations in samples.txt share words with their references, set `evaluation.tokenize` for this"
            " language, or `training.validation.metric` to chrf or loss; otherwise train longer"
        )
    if result.translations:
        logger.log_samples(state.update, validator.format_samples(result.translations))


class _LogHandler(logging.Handler):
    """Writes to train.log, and to standard error above the progress bar; control characters are escaped."""

    def __init__(self, logger: MetricsLogger) -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        now = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        text, mark = visible(record.getMessage()), vars(record).get("mark", "")
        self._logger.append(LOG_FILE, f"{now} {mark}{text}\n")
        with suppress(OSError):  # a closed pipe or terminal does not end the training
            tqdm.write(f"{now} {text}", file=sys.stderr)


def format_few_lines(rows: Sequence[int] | Indices) -> str:
    """The first line numbers of pairs in data/train.jsonl, for train.log."""
    few = ", ".join(str(int(row) + 1) for row in rows[:MAX_SHOWN_LINES])
    more = f" and {len(rows) - MAX_SHOWN_LINES} more (all are in metrics.jsonl)" if len(rows) > MAX_SHOWN_LINES else ""
    return f"line{'s' * (len(rows) > 1)} {few} of data/train.jsonl{more}"


def _truncate_logs(folder: Path, sizes: Mapping[str, int]) -> None:
    """Remove lines logged after the checkpoint, except lines about sessions, and incomplete lines after a crash."""
    for name in (METRICS_FILE, LOG_FILE, SAMPLES_FILE):
        path, size = folder / name, sizes.get(name, 0)
        if path.is_file() and path.stat().st_size > size:
            with path.open("rb") as file:
                file.seek(size)
                kept = [line for line in file if name == LOG_FILE and _is_session_line(line)]
            os.truncate(path, size)
            with path.open("ab") as file:
                file.writelines(kept)


def _is_session_line(line: bytes) -> bool:
    *_, text = line.split(b" ", 2)
    return text.startswith(SESSION_MARK.encode()) and line.endswith(b"\n")


def _tensorboard(folder: Path, update: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError("`training.tensorboard` needs TensorBoard: pip install 'seq2attn[tensorboard]'") from None
    return SummaryWriter(str(folder / "tensorboard"), purge_step=update + 1)  # also of a start that saved nothing
