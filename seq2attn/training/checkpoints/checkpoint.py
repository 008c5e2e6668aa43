"""Checkpoints on disk, written atomically and without pickle.

checkpoints/00001200/model.safetensors     the weights
                     optimizer.safetensors the tensors of the optimizer (newest checkpoints only)
                     train_state.json      progress, scores, and the digests of all three files
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from pydantic import NonNegativeInt, TypeAdapter
from torch import Tensor, nn
from typing_extensions import TypedDict

from seq2attn.errors import CorruptFileError, RunError
from seq2attn.io.files import atomic_dir, read_object, sha256_json, write_json
from seq2attn.io.weights import copy_weights, load_tensors, save_tensors, unique_state_dict
from seq2attn.models.weights import Vocabularies, save_weights
from seq2attn.training.train_state import TrainState

CHECKPOINTS_FOLDER, STATE_FILE = "checkpoints", "train_state.json"
WEIGHTS_FILE: Final = "model.safetensors"
OPTIMIZER_FILE: Final = "optimizer.safetensors"
CHECKPOINT_HINT = "an older checkpoint is used"
Digests = TypedDict("Digests", {"model.safetensors": str, "optimizer.safetensors": str})


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk."""

    folder: Path
    train_state: TrainState
    optimizer_scalars: dict[str, int | float]  # optimizer state that is not tensors
    digests: Digests
    log_sizes: dict[str, NonNegativeInt]  # of the logs up to this checkpoint, in bytes

    @property
    def is_validated(self) -> bool:
        """True if it was saved at a validation, not at an interruption."""
        return self.train_state.last_validated_update == self.train_state.update

    @property
    def model_path(self) -> Path:
        """The file of the weights."""
        return self.folder / WEIGHTS_FILE

    @property
    def optimizer_path(self) -> Path:
        """The file of the optimizer state, which older checkpoints do not have."""
        return self.folder / OPTIMIZER_FILE


def save_checkpoint(
    run: Path,
    model: nn.Module,
    vocabularies: Vocabularies,
    optimizer: torch.optim.Optimizer,
    state: TrainState,
    log_sizes: dict[str, int],
) -> Checkpoint:
    """Write a checkpoint atomically. Raises RunError if it cannot be written; older ones are unchanged."""
    folder = run / CHECKPOINTS_FOLDER / f"{state.update:08d}"
    tensors, scalars = _flatten(optimizer.state_dict()["state"])
    try:
        with atomic_dir(folder) as partial:
            digests: Digests = {
                WEIGHTS_FILE: save_weights(unique_state_dict(model), vocabularies, partial / WEIGHTS_FILE),
                OPTIMIZER_FILE: save_tensors(tensors, partial / OPTIMIZER_FILE),
            }
            checkpoint = Checkpoint(folder, dataclasses.replace(state), scalars, digests, log_sizes)
            content = dataclasses.asdict(checkpoint)
            del content["folder"]
            write_json(partial / STATE_FILE, {**content, "digest": sha256_json(content)})
    except (OSError, RunError) as error:
        reason = str(error) if isinstance(error, RunError) else f"{folder}: {error.strerror or error}"
        raise RunError(
            f"update {state.update:,} could not be saved; older checkpoints are unchanged, resume with `train"
            f" --resume`. {reason}"
        ) from None
    return checkpoint


def list_checkpoints(run: Path) -> list[Checkpoint]:
    """The checkpoints of a run whose state is valid, oldest first."""
    checkpoints = []
    for folder in checkpoint_folders(run):
        try:
            checkpoints.append(read_checkpoint(folder))
        except CorruptFileError:
            continue
    return checkpoints


def checkpoint_folders(run: Path) -> list[Path]:
    """The folders of the checkpoints of a run, oldest first, with corrupt ones."""
    return sorted((run / CHECKPOINTS_FOLDER).glob("[0-9]*[0-9]"))


def read_checkpoint(folder: Path) -> Checkpoint:
    """The checkpoint in a folder, without its tensors. Raises CorruptFileError if its state is not valid."""
    path = folder / STATE_FILE
    try:
        content = read_object(path, CHECKPOINT_HINT)
        if content.pop("digest", None) != sha256_json(content):
            raise ValueError("its digest differs")
        return TypeAdapter(Checkpoint).validate_python({**content, "folder": folder})
    except RunError as error:
        raise CorruptFileError(str(error)) from None
    except ValueError as error:
        raise CorruptFileError(f"{path}: is corrupt ({error}); {CHECKPOINT_HINT}") from None


def load_checkpoint(checkpoint: Checkpoint) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The weights, and the tensors of the optimizer. Raises RunError if a file is missing or corrupt."""
    return (
        load_tensors(checkpoint.model_path, digest=checkpoint.digests[WEIGHTS_FILE]),
        load_tensors(checkpoint.optimizer_path, digest=checkpoint.digests[OPTIMIZER_FILE]),
    )


def restore(checkpoint: Checkpoint, model: nn.Module, optimizer: torch.optim.Optimizer | None) -> TrainState:
    """Load model and optimizer from a checkpoint; None for a new optimizer.

    Raises: RunError if tensors do not match this model and optimizer.
    """
    weights, tensors = load_checkpoint(checkpoint)
    copy_weights(model, weights, checkpoint.model_path)
    if optimizer is not None:
        _check_optimizer_state(tensors, checkpoint, optimizer)
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": _unflatten(tensors, checkpoint.optimizer_scalars), "param_groups": groups})
    return dataclasses.replace(checkpoint.train_state)


def _check_optimizer_state(
    tensors: dict[str, Tensor], checkpoint: Checkpoint, optimizer: torch.optim.Optimizer
) -> None:
    """Check names and shapes, which `load_state_dict` does not."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    shapes = {str(index): parameter.shape for index, parameter in enumerate(parameters)}
    for name in [*tensors, *checkpoint.optimizer_scalars]:
        shape, tensor = shapes.get(name.partition(".")[0]), tensors.get(name)
        if shape is None or (tensor is not None and tensor.dim() > 0 and tensor.shape != shape):
            raise RunError(f"{checkpoint.optimizer_path}: `{name}` does not match the trained weights")


def _flatten(state: dict[int, dict[str, Any]]) -> tuple[dict[str, Tensor], dict[str, int | float]]:
    values = {f"{index}.{key}": value for index, part in state.items() for key, value in part.items()}
    tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
    return tensors, {name: value for name, value in values.items() if isinstance(value, int | float)}


def _unflatten(tensors: dict[str, Tensor], scalars: dict[str, int | float]) -> dict[int, dict[str, Any]]:
    state: dict[int, dict[str, Any]] = {}
    for name, value in [*tensors.items(), *scalars.items()]:
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = value
    return state
