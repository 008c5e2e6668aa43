"""Logs of a training: train.log, metrics.jsonl, a progress bar, sample translations, TensorBoard.

The files are of the training, not of a session: resuming truncates them to their size at the checkpoint. Log lines
about a session, how it started and was stopped, have a mark before them.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tqdm import tqdm

from seq2attn.errors import RunError, UserError
from seq2attn.io.files import sync
from seq2attn.io.terminal import visible
from seq2attn.run_directory import RunDirectory
from seq2attn.training.checkpoints.checkpoint import Checkpoint

logger = logging.getLogger("seq2attn")

METRICS_FILE, LOG_FILE, SAMPLES_FILE = "metrics.jsonl", "train.log", "samples.txt"
TIMING_METRICS = frozenset({"seconds", "target_tokens_per_second"})
"""The numbers of metrics.jsonl that are timings: all others are the same when a training is repeated."""
TIMING_PATTERN = re.compile(r"^[0-9-]+ [0-9:]+ |[0-9,]+ target tokens/s(, [0-9,]+ min left)?")
"""The same in train.log."""
SESSION_MARK = "# "
"""Before log lines about a session, after the time."""


class MetricsLogger:
    """Writes the reports of the main process; the others write nothing."""

    def __init__(self, run: RunDirectory, *, leads: bool, since: Checkpoint | None, tensorboard: bool) -> None:
        self.is_main_process = leads
        self.run = run
        update = since.train_state.update if since else 0
        self.tensorboard: Any = _tensorboard(run.folder, update) if tensorboard and leads else None
        self.progress_bar: Any = None
        if leads:
            _go_back(run.folder, since)
            self._handlers = _log_to(run.folder / LOG_FILE)

    def log(self, text: str) -> None:
        """A log line about the training, which is repeated when the training is."""
        if self.is_main_process:
            logger.info(text)

    def log_session(self, text: str) -> None:
        """A log line about this session."""
        if self.is_main_process:
            logger.info(text, extra={"mark": SESSION_MARK})

    def log_sizes(self) -> dict[str, int]:
        """Bytes of the files, which are then on the disk."""
        paths = [path for name in (METRICS_FILE, LOG_FILE, SAMPLES_FILE) if (path := self.run.folder / name).is_file()]
        for path in paths:
            sync(path)
        return {path.name: path.stat().st_size for path in paths}

    def log_metrics(self, kind: str, update: int, numbers: Mapping[str, float | str]) -> None:
        """A line of metrics.jsonl, and TensorBoard's scalars."""
        if not self.is_main_process:
            return
        line = {
            "kind": kind,
            "update": update,
            **{name: json_number(number) for name, number in numbers.items()},
        }
        self._append(METRICS_FILE, json.dumps(line, ensure_ascii=False) + "\n")
        if self.tensorboard is not None:
            for name, number in numbers.items():
                if not isinstance(json_number(number), str):
                    self.tensorboard.add_scalar(f"{kind}/{name}", number, update)

    def log_samples(self, update: int, text: str) -> None:
        """Translations of this moment."""
        if self.is_main_process:
            self._append(SAMPLES_FILE, f"== update {update}\n{text}\n")

    def _append(self, name: str, text: str) -> None:
        path = self.run.folder / name
        try:
            with path.open("a", encoding="utf-8", newline="\n") as file:
                file.write(text)
        except OSError as error:
            raise _unwritable(path, error) from None

    def start_epoch(self, number: int, updates: int, done: int) -> None:
        """A new progress bar."""
        self.close_bar()
        if self.is_main_process and sys.stderr.isatty():
            self.progress_bar = tqdm(total=updates, initial=done, desc=f"epoch {number}", unit="update", leave=False)

    def update_progress(self, text: str) -> None:
        """One update more."""
        if self.progress_bar is not None:
            self.progress_bar.set_postfix_str(text, refresh=False)
            self.progress_bar.update()

    def close_bar(self) -> None:
        """Remove the progress bar."""
        if self.progress_bar is not None:
            self.progress_bar.close()
            self.progress_bar = None

    def close(self) -> None:
        """Let go of all files."""
        self.close_bar()
        if self.tensorboard is not None:
            self.tensorboard.close()
        if self.is_main_process:
            for handler in self._handlers:
                logger.removeHandler(handler)
                handler.close()


class _TqdmHandler(logging.Handler):
    """Lines on standard error that do not tear the progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):  # whoever read it has gone: training does not end for that
            tqdm.write(self.format(record), file=sys.stderr)


class _Visible(logging.Formatter):
    """Lines that are safe to show on a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


class _LogFileHandler(logging.FileHandler):
    """Lines of a log that ends the training when it cannot be written."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # its name in `logging`
        error = sys.exc_info()[1]
        if isinstance(error, OSError):
            raise _unwritable(Path(self.baseFilename), error) from None
        super().handleError(record)


def json_number(number: float | str) -> float | str:
    """A number as JSON has it, which knows none that is not finite."""
    return number if isinstance(number, str) or math.isfinite(number) else str(number)


def _unwritable(path: Path, error: OSError) -> RunError:
    return RunError(
        f"{path}: cannot be written ({error.strerror}); the checkpoints are as they were, and `train --resume` goes on"
        " from the newest"
    )


def _log_to(path: Path) -> list[logging.Handler]:
    logger.setLevel(logging.INFO)
    handlers = [_LogFileHandler(path, encoding="utf-8"), _TqdmHandler()]
    for handler, line in zip(handlers, ("%(asctime)s %(mark)s%(message)s", "%(asctime)s %(message)s"), strict=True):
        handler.setFormatter(_Visible(line, "%Y-%m-%d %H:%M:%S", defaults={"mark": ""}))
        logger.addHandler(handler)
    return handlers


def _go_back(folder: Path, since: Checkpoint | None) -> None:
    """Drop what was logged after the checkpoint that training resumes from, and a line that a crash cut short."""
    for name in (METRICS_FILE, LOG_FILE, SAMPLES_FILE):
        path, length = folder / name, since.log_sizes.get(name, 0) if since else 0
        if path.is_file() and path.stat().st_size > length:
            with path.open("rb") as file:
                file.seek(length)
                later = [line for line in file if name == LOG_FILE and _is_note(line)]
            os.truncate(path, length)
            with path.open("ab") as file:
                file.writelines(later)


def _is_note(line: bytes) -> bool:
    *_, text = line.split(b" ", 2)
    return text.startswith(SESSION_MARK.encode()) and line.endswith(b"\n")


def _tensorboard(folder: Path, update: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError("`training.tensorboard` needs TensorBoard: pip install 'seq2attn[tensorboard]'") from None
    return SummaryWriter(str(folder / "tensorboard"), purge_step=update + 1 if update else None)
