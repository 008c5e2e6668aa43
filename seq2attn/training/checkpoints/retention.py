"""Retention and ranking of checkpoints, and the choice of the one to resume from."""

import shutil
from collections.abc import Callable
from pathlib import Path

from seq2attn.errors import RunError
from seq2attn.io.files import MANIFEST, remove_dir, remove_temporary
from seq2attn.training.checkpoints.checkpoint import (
    CHECKPOINTS_FOLDER,
    FROZEN_PREFIX,
    WEIGHTS_FILE,
    Checkpoint,
    checkpoint_folders,
    list_checkpoints,
    load_checkpoint,
    read_checkpoint,
)

MIN_BLEU = 5.0
"""BLEU below which the loss ranks checkpoints: that of a model that has not learned yet is chance."""
MIN_RESUMABLE = 2
"""Minimum number of checkpoints with optimizer state, in case one is corrupt."""
PREPARED_FILES = ("config.yaml", "source", "target", "data")
"""What the preparation of a training writes, and the usual names of a project's own files."""


def refuse_existing_files(run: Path) -> None:
    """Raises RunError if `run` has files that must not be replaced: of a training, of a model, or not of a run."""
    other_folder = "set another `run_dir` (``overrides=run_dir=DIR``)"
    fix = f"{other_folder}, or remove the folder"
    if checkpoint_folders(run):
        raise RunError(f"{run}: already contains a training; resume it with `train --resume`, {fix}")
    if (run / WEIGHTS_FILE).exists():
        raise RunError(f"{run}: already contains a model, and no checkpoint to resume; {fix}")
    others = [name for name in PREPARED_FILES if (run / name).exists()]
    if others and not (run / MANIFEST).exists():
        raise RunError(f"{run}: `{others[0]}` would be replaced, and does not belong to a run; {other_folder}")


def validated_checkpoints(run: Path) -> list[Checkpoint]:
    """Checkpoints that were saved at a validation, oldest first."""
    return [checkpoint for checkpoint in list_checkpoints(run) if checkpoint.is_validated]


def rank(scores: dict[str, float], metric: str) -> tuple[float, float]:
    """Sort key of a validation, higher is better: the metric, then the loss, also where BLEU is below `MIN_BLEU`."""
    loss = -scores["loss"]
    value = loss if metric == "loss" else scores[metric]
    return (max(value, MIN_BLEU) if metric == "bleu" else value), loss


def rank_checkpoints(checkpoints: list[Checkpoint], metric: str, digest: str) -> list[Checkpoint]:
    """Checkpoints with a value of the metric, from validations with that digest.

    Best first: by the metric, then the loss, then the newer.
    """
    comparable = [
        c for c in checkpoints if metric in c.train_state.scores and c.train_state.validation_digest == digest
    ]
    return sorted(comparable, key=lambda c: (rank(c.train_state.scores, metric), c.train_state.update), reverse=True)


def prune(run: Path, best: list[Checkpoint], *, keep_last: int) -> None:
    """Remove checkpoints that are neither among the last nor the best, and the optimizer state of older ones.

    Those of an interruption are kept until the next validation, the two newest of all. The newest one without skipped
    updates is always kept.
    """
    checkpoints = list_checkpoints(run)
    validated = [checkpoint for checkpoint in checkpoints if checkpoint.is_validated]
    newest = validated[-1].train_state.update if validated else -1
    finite = [c for c in checkpoints if not c.train_state.consecutive_skips][-1:]
    resumable = {c.folder for c in [*validated[-MIN_RESUMABLE:], *finite]}
    kept = resumable | {c.folder for c in [*validated[-max(keep_last, MIN_RESUMABLE) :], *best]}
    kept |= {c.folder for c in checkpoints[-MIN_RESUMABLE:] if c.train_state.update >= newest}
    for checkpoint in checkpoints:
        if checkpoint.folder not in kept:
            remove_dir(checkpoint.folder)
    for checkpoint in validated:
        if checkpoint.folder not in resumable:
            checkpoint.optimizer_path.unlink(missing_ok=True)
    remove_temporary(run / CHECKPOINTS_FOLDER)
    shared = {checkpoint.frozen_path for checkpoint in checkpoints if checkpoint.folder in kept}
    for path in (run / CHECKPOINTS_FOLDER).glob(f"{FROZEN_PREFIX}*"):
        if path not in shared:
            path.unlink()


def latest_valid_checkpoint(run: Path, warn: Callable[[str], None]) -> Checkpoint | None:
    """The newest checkpoint that is valid; None if there are no checkpoints.

    Newer ones that are corrupt are renamed, each with a warning. Raises RunError if all are corrupt.
    """
    corrupt: list[tuple[Path, RunError]] = []
    for folder in reversed(checkpoint_folders(run)):
        try:
            checkpoint = read_checkpoint(folder)
            load_checkpoint(checkpoint)
        except RunError as error:
            corrupt.append((folder, error))
            continue
        for corrupt_folder, reason in corrupt:
            renamed = corrupt_folder.with_name(corrupt_folder.name + ".corrupt")
            shutil.rmtree(renamed, ignore_errors=True)
            corrupt_folder.rename(renamed)
            update = checkpoint.train_state.update
            warn(f"warning: {reason}; renamed to {renamed.name}, training resumes after update {update:,}")
        return checkpoint
    if corrupt:
        reasons = "\n".join(dict.fromkeys(f"  {reason}" for _, reason in corrupt))
        raise RunError(f"{run}: has no valid checkpoint to resume from:\n{reasons}")
    return None


def remove_nonfinite_checkpoints(run: Path) -> int | None:
    """Remove the newest checkpoints that were saved among skipped updates, so that `--resume` starts before them.

    Returns the update of the newest checkpoint that is left.
    """
    for checkpoint in reversed(list_checkpoints(run)):
        if not checkpoint.train_state.consecutive_skips:
            return checkpoint.train_state.update
        remove_dir(checkpoint.folder)
    return None
