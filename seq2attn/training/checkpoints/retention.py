"""Which checkpoints of a run are kept, which are best, and which one training resumes from."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from seq2attn.errors import CorruptFileError, RunError
from seq2attn.io.files import remove_dir
from seq2attn.training.checkpoints.checkpoint import (
    CHECKPOINTS_FOLDER,
    Checkpoint,
    checkpoint_folders,
    list_checkpoints,
    load_checkpoint,
    read_checkpoint,
)

MIN_RESUMABLE = 2
"""Checkpoints that training can go on from, at least: if one is corrupt, there is another."""
LEFTOVER_PATTERNS = ("*.partial", "*.removed")
"""What a kill leaves of a checkpoint that was being written or removed."""


def refuse_existing_training(run: Path) -> None:
    """Raises RunError when `run` holds a training, which new tokenizers would make useless."""
    if checkpoint_folders(run):
        raise RunError(
            f"{run}: already holds a training; go on with it by `train --resume`, give another `run_dir`"
            " (--set run_dir=DIR), or remove the folder"
        )


def validated_checkpoints(run: Path) -> list[Checkpoint]:
    """Those that were made by a validation, oldest first: where else training was interrupted changes nothing."""
    return [checkpoint for checkpoint in list_checkpoints(run) if checkpoint.is_validated]


def rank(scores: dict[str, float], metric: str) -> tuple[float, float]:
    """Sort key of a validation, higher is better: by the metric, and where that is equal by the loss."""
    loss = -scores["loss"]
    return (loss if metric == "loss" else scores[metric]), loss


def comparable_checkpoints(every: list[Checkpoint], metric: str, digest: str) -> list[Checkpoint]:
    """Those with a value of the metric, on the validation sentences and by the settings of that digest."""
    return [c for c in every if metric in c.train_state.scores and c.train_state.validation_digest == digest]


def best_checkpoints(comparable: list[Checkpoint], count: int, metric: str) -> list[Checkpoint]:
    """The best of comparable checkpoints, best first: by the metric, then by the loss, then the newer."""
    return sorted(comparable, key=lambda c: (rank(c.train_state.scores, metric), c.train_state.update), reverse=True)[
        :count
    ]


def prune(run: Path, best: list[Checkpoint], *, keep_last: int) -> None:
    """Drop checkpoints that are neither among the last nor the best, and what older ones need only for resuming.

    Those of an interruption are kept until the next validation, the two newest of all. The newest one without
    skipped updates is always kept.
    """
    every = list_checkpoints(run)
    validated = [checkpoint for checkpoint in every if checkpoint.is_validated]
    newest = validated[-1].train_state.update if validated else -1
    finite = [c for c in every if not c.train_state.consecutive_skips][-1:]
    resumable = {c.folder for c in [*validated[-MIN_RESUMABLE:], *finite]}
    kept = resumable | {c.folder for c in [*validated[-max(keep_last, MIN_RESUMABLE) :], *best]}
    kept |= {c.folder for c in every[-MIN_RESUMABLE:] if c.train_state.update >= newest}
    for checkpoint in every:
        if checkpoint.folder not in kept:
            remove_dir(checkpoint.folder)
    for checkpoint in validated:
        if checkpoint.folder not in resumable:
            checkpoint.optimizer_path.unlink(missing_ok=True)
    for pattern in LEFTOVER_PATTERNS:
        for folder in (run / CHECKPOINTS_FOLDER).glob(pattern):
            shutil.rmtree(folder, ignore_errors=True)


def latest_valid_checkpoint(run: Path, warn: Callable[[str], None]) -> Checkpoint | None:
    """The newest checkpoint that is what was written; none if there is none at all.

    Newer ones that are corrupt are set aside, each with a warning. Raises: RunError when none is valid.
    """
    corrupt: list[tuple[Path, str]] = []
    for folder in reversed(checkpoint_folders(run)):
        try:
            checkpoint = read_checkpoint(folder)
        except CorruptFileError as error:
            corrupt.append((folder, str(error)))
            continue
        try:
            load_checkpoint(checkpoint)
        except RunError as error:
            corrupt.append((folder, str(error)))
            continue
        for other, why in corrupt:
            aside = other.with_name(other.name + ".corrupt")
            shutil.rmtree(aside, ignore_errors=True)
            other.rename(aside)
            warn(f"warning: {why}; set aside as {aside.name}, and update {checkpoint.train_state.update:,} taken")
        return checkpoint
    if corrupt:
        whys = "\n".join(f"  {why}" for _, why in corrupt)
        raise RunError(f"{run}: has no checkpoint that training can go on from:\n{whys}")
    return None


def drop_unsound(run: Path) -> int | None:
    """Removes the newest checkpoints that were saved among skipped updates, so that `--resume` takes one before them.

    Returns the update of the newest that is left.
    """
    for checkpoint in reversed(list_checkpoints(run)):
        if not checkpoint.train_state.consecutive_skips:
            return checkpoint.train_state.update
        remove_dir(checkpoint.folder)
    return None
