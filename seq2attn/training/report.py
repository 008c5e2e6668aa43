"""Where training tells how it goes: a log, metrics.jsonl, a progress bar, sample translations, TensorBoard."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

from seq2attn.errors import UserError
from seq2attn.run import Run

logger = logging.getLogger("seq2attn")


class Reporter:
    """Writes the reports of the process that leads; in all others it keeps quiet."""

    def __init__(self, run: Run, *, leads: bool, update: int, tensorboard: bool) -> None:
        self.leads = leads
        self.run = run
        self.board: Any = _tensorboard(run.folder) if tensorboard and leads else None
        self.bar: Any = None
        if leads:
            _forget_after(run.metrics, update)
            self._handlers = _log_to(run.folder / "train.log")

    def say(self, text: str) -> None:
        """A line for people."""
        if self.leads:
            logger.info(text)

    def measure(self, kind: str, update: int, numbers: Mapping[str, float | str]) -> None:
        """A line of metrics.jsonl, and TensorBoard's scalars."""
        if not self.leads:
            return
        line = {"kind": kind, "update": update, **numbers}
        with self.run.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        if self.board is not None:
            for name, number in numbers.items():
                if not isinstance(number, str):
                    self.board.add_scalar(f"{kind}/{name}", number, update)

    def sample(self, update: int, text: str) -> None:
        """Translations of this moment."""
        if self.leads:
            with (self.run.folder / "samples.txt").open("a", encoding="utf-8") as file:
                file.write(f"== update {update}\n{text}\n")

    def epoch(self, number: int, updates: int, done: int) -> None:
        """A new progress bar."""
        self.close_bar()
        if self.leads and sys.stderr.isatty():
            self.bar = tqdm(total=updates, initial=done, desc=f"epoch {number}", unit="update", leave=False)

    def advance(self, text: str) -> None:
        """One update more."""
        if self.bar is not None:
            self.bar.set_postfix_str(text, refresh=False)
            self.bar.update()

    def close_bar(self) -> None:
        """Remove the progress bar."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def close(self) -> None:
        """Let go of all files."""
        self.close_bar()
        if self.board is not None:
            self.board.close()
        if self.leads:
            for handler in self._handlers:
                logger.removeHandler(handler)
                handler.close()


class _BesideBar(logging.Handler):
    """Lines on standard error that do not tear the progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        tqdm.write(self.format(record), file=sys.stderr)


def _log_to(path: Path) -> list[logging.Handler]:
    logger.setLevel(logging.INFO)
    handlers = [logging.FileHandler(path, encoding="utf-8"), _BesideBar()]
    for handler in handlers:
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
        logger.addHandler(handler)
    return handlers


def _forget_after(path: Path, update: int) -> None:
    """Drop what was measured after the checkpoint that training goes on from, and a line that a crash cut short."""
    if path.is_file():
        lines = path.read_text(encoding="utf-8").split("\n")
        kept = [line for line in lines if line.endswith("}") and json.loads(line)["update"] <= update]
        path.write_text("".join(line + "\n" for line in kept), encoding="utf-8")


def _tensorboard(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError(
            "`training.tensorboard` needs TensorBoard: pip install 'seq2attn[tensorboard]'"
        ) from None
    return SummaryWriter(str(folder / "tensorboard"))
