"""Checkpoints: folders of a run, each whole or not there, without pickle.

checkpoints/00001200/model.safetensors     the weights
                     optimizer.safetensors the tensors of the optimizer (the newest ones only)
                     train_state.json      where training stood, how good it was, and the digests of all three files
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import NonNegativeInt, TypeAdapter
from torch import Tensor, nn

from seq2attn.errors import CorruptFileError, RunError
from seq2attn.io.files import atomic_dir, read_object, sha256_json, write_json
from seq2attn.io.weights import copy_weights, load_tensors, save_tensors, unique_state_dict
from seq2attn.models.weights import Vocabularies, save_weights
from seq2attn.training.train_state import TrainState

CHECKPOINTS_FOLDER, WEIGHTS_FILE, OPTIMIZER_FILE, STATE_FILE = (
    "checkpoints",
    "model.safetensors",
    "optimizer.safetensors",
    "train_state.json",
)
CHECKPOINT_HINT = "an older checkpoint is used"
Digests = dict[str, str]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk."""

    folder: Path
    train_state: TrainState
    optimizer_scalars: dict[str, float]  # optimizer state that is not tensors
    digests: Digests  # of its files
    log_sizes: dict[str, int]  # bytes of the run's logs, for they tell of what came before

    @property
    def is_validated(self) -> bool:
        """Whether it was made by a validation, not by an interruption."""
        return self.train_state.last_validated_update == self.train_state.update

    @property
    def model_path(self) -> Path:
        """The file of weights."""
        return self.folder / WEIGHTS_FILE

    @property
    def optimizer_path(self) -> Path:
        """The file of the optimizer state; older checkpoints, which are not resumed from, have none."""
        return self.folder / OPTIMIZER_FILE


def save_checkpoint(
    run: Path,
    model: nn.Module,
    vocabularies: Vocabularies,
    optimizer: torch.optim.Optimizer,
    state: TrainState,
    lengths: dict[str, int],
) -> Checkpoint:
    """Write a checkpoint under a temporary name, and give it its own when it is whole and on the disk.

    Raises: RunError when it cannot be written; the older ones are then as they were.
    """
    folder = run / CHECKPOINTS_FOLDER / f"{state.update:08d}"
    tensors, numbers = _flatten(optimizer.state_dict()["state"])
    try:
        with atomic_dir(folder) as partial:
            digests: Digests = {
                WEIGHTS_FILE: save_weights(unique_state_dict(model), vocabularies, partial / WEIGHTS_FILE),
                OPTIMIZER_FILE: save_tensors(tensors, partial / OPTIMIZER_FILE),
            }
            made = Checkpoint(folder, dataclasses.replace(state), numbers, digests, lengths)
            write_json(partial / STATE_FILE, _sealed(made))
    except (OSError, RunError) as error:
        why = str(error) if isinstance(error, RunError) else f"{folder}: {error.strerror or error}"
        raise RunError(
            f"update {state.update:,} could not be saved; what was saved before is as it was, and `train --resume`"
            f" goes on from there. {why}"
        ) from None
    return made


def list_checkpoints(run: Path) -> list[Checkpoint]:
    """The checkpoints of a run that can be read, oldest first."""
    found = []
    for folder in checkpoint_folders(run):
        try:
            found.append(read_checkpoint(folder))
        except CorruptFileError:
            continue
    return found


def checkpoint_folders(run: Path) -> list[Path]:
    """Where the checkpoints of a run are, oldest first, corrupt ones included."""
    return sorted((run / CHECKPOINTS_FOLDER).glob("[0-9]*[0-9]"))


def read_checkpoint(folder: Path) -> Checkpoint:
    """The checkpoint in a folder.

    Raises: CorruptFileError when that is not what was written.
    """
    path = folder / STATE_FILE
    try:
        return _unsealed(folder, read_object(path, CHECKPOINT_HINT))
    except RunError as error:
        raise CorruptFileError(str(error)) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptFileError(f"{path}: is corrupt ({error}); {CHECKPOINT_HINT}") from None


def load_checkpoint(checkpoint: Checkpoint) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The weights, and the tensors of the optimizer.

    Raises: RunError when they are not there, or not what was written.
    """
    return (
        load_tensors(checkpoint.model_path, digest=checkpoint.digests[WEIGHTS_FILE]),
        load_tensors(checkpoint.optimizer_path, digest=checkpoint.digests[OPTIMIZER_FILE]),
    )


def restore(checkpoint: Checkpoint, model: nn.Module, optimizer: torch.optim.Optimizer | None) -> TrainState:
    """Load model and optimizer from a checkpoint; no optimizer where it is of another kind now.

    Raises: RunError when what it has is not of this model and optimizer.
    """
    weights, tensors = load_checkpoint(checkpoint)
    copy_weights(model, weights, checkpoint.model_path)
    if optimizer is not None:
        _check_remembered(tensors, checkpoint, optimizer)
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": _unflatten(tensors, checkpoint.optimizer_scalars), "param_groups": groups})
    return dataclasses.replace(checkpoint.train_state)


def _check_remembered(tensors: dict[str, Tensor], checkpoint: Checkpoint, optimizer: torch.optim.Optimizer) -> None:
    """Refuse an optimizer state of other weights, which the optimizer would only notice at its next step."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    shapes = {str(index): parameter.shape for index, parameter in enumerate(parameters)}
    for name in [*tensors, *checkpoint.optimizer_scalars]:
        shape = shapes.get(name.partition(".")[0])
        tensor = tensors.get(name)
        if shape is None or (tensor is not None and tensor.dim() > 0 and tensor.shape != shape):
            raise RunError(f"{checkpoint.optimizer_path}: `{name}` is not of the weights that are trained")


def _sealed(checkpoint: Checkpoint) -> dict[str, Any]:
    content = {
        "train_state": dataclasses.asdict(checkpoint.train_state),
        "optimizer_scalars": checkpoint.optimizer_scalars,
        "digests": checkpoint.digests,
        "log_sizes": checkpoint.log_sizes,
    }
    return {**content, "digest": sha256_json(content)}


def _unsealed(folder: Path, content: dict[str, Any]) -> Checkpoint:
    if content.pop("digest", None) != sha256_json(content):
        raise ValueError("its digest differs")
    state = TypeAdapter(TrainState).validate_python(content["train_state"])
    numbers = TypeAdapter(dict[str, int | float]).validate_python(content["optimizer_scalars"])
    digests = TypeAdapter(dict[Literal["model.safetensors", "optimizer.safetensors"], str])
    lengths = TypeAdapter(dict[str, NonNegativeInt])
    return Checkpoint(
        folder,
        state,
        numbers,
        {str(name): digest for name, digest in digests.validate_python(content["digests"]).items()},
        lengths.validate_python(content["log_sizes"]),
    )


def _flatten(state: dict[int, dict[str, Any]]) -> tuple[dict[str, Tensor], dict[str, float]]:
    tensors = {f"{i}.{k}": v for i, part in state.items() for k, v in part.items() if isinstance(v, Tensor)}
    numbers = {f"{i}.{k}": v for i, part in state.items() for k, v in part.items() if isinstance(v, int | float)}
    return tensors, numbers


def _unflatten(tensors: dict[str, Tensor], numbers: dict[str, float]) -> dict[int, dict[str, Any]]:
    state: dict[int, dict[str, Any]] = {}
    for name, value in [*tensors.items(), *numbers.items()]:
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = value
    return state
