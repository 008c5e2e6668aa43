"""Checkpoints on disk, written atomically and without pickle.

checkpoints/00001200/model.safetensors     the trained weights
                     optimizer.safetensors the tensors of the optimizer (newest checkpoints only)
                     train_state.json      progress, scores, and the digests of all files
            frozen-1a2b….safetensors       the frozen weights, once for all checkpoints
"""

import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import torch
from pydantic import Field, NonNegativeInt
from torch import Tensor, nn
from typing_extensions import TypedDict

from seq2attn.errors import CorruptFileError, RunError
from seq2attn.io.files import atomic_dir, atomic_path, read_object, sha256_json, validate, write_json
from seq2attn.io.weights import copy_weights, load_tensors, save_tensors, tensors_digest, unique_state_dict
from seq2attn.models.build import Vocabularies, save_weights
from seq2attn.training.train_state import TrainState

CHECKPOINTS_FOLDER, STATE_FILE = "checkpoints", "train_state.json"
WEIGHTS_FILE: Final = "model.safetensors"
OPTIMIZER_FILE: Final = "optimizer.safetensors"
FROZEN_PREFIX: Final = "frozen-"
CHECKPOINT_HINT = "this checkpoint cannot be used"
Digests = TypedDict("Digests", {"model.safetensors": str, "optimizer.safetensors": str})


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk."""

    folder: Path
    train_state: TrainState
    digests: Digests
    log_sizes: dict[str, NonNegativeInt]  # of the logs up to this checkpoint, in bytes
    frozen: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None  # digest of the frozen weights, if any

    @property
    def is_validated(self) -> bool:
        """True if it was saved at a validation, not at an interruption."""
        return self.train_state.last_validated_update == self.train_state.update

    @property
    def model_path(self) -> Path:
        """The file of the trained weights."""
        return self.folder / WEIGHTS_FILE

    @property
    def frozen_path(self) -> Path | None:
        """The file of the frozen weights, which other checkpoints share."""
        return None if self.frozen is None else _frozen_path(self.folder.parent, self.frozen)

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
    parts = optimizer.state_dict()["state"].items()
    tensors = {f"{index}.{key}": value for index, part in parts for key, value in part.items()}
    weights = unique_state_dict(model)
    names = [name for name, parameter in model.named_parameters() if not parameter.requires_grad]
    frozen = {name: weights.pop(name) for name in names}
    try:
        frozen_digest = _save_frozen(frozen, folder.parent) if frozen else None
        with atomic_dir(folder) as partial:
            digests: Digests = {
                WEIGHTS_FILE: save_weights(weights, vocabularies, partial / WEIGHTS_FILE),
                OPTIMIZER_FILE: save_tensors(tensors, partial / OPTIMIZER_FILE),
            }
            checkpoint = Checkpoint(folder, state, digests, log_sizes, frozen_digest)
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


def _save_frozen(weights: Mapping[str, Tensor], folder: Path) -> str:
    """Write frozen weights, unless an older checkpoint has the same. Returns their digest."""
    digest = tensors_digest(weights, {})
    path = _frozen_path(folder, digest)
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as partial:
            save_tensors(weights, partial)
    return digest


def _frozen_path(folder: Path, digest: str) -> Path:
    return folder / f"{FROZEN_PREFIX}{digest[:16]}.safetensors"


def list_checkpoints(run: Path) -> list[Checkpoint]:
    """The checkpoints of a run whose state is valid, oldest first."""
    checkpoints = []
    for folder in checkpoint_folders(run):
        with suppress(CorruptFileError):
            checkpoints.append(read_checkpoint(folder))
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
            raise RunError(f"{path}: is corrupt (its digest differs); {CHECKPOINT_HINT}")
        return validate(Checkpoint, {**content, "folder": folder}, path, "is corrupt", CHECKPOINT_HINT)
    except RunError as error:
        raise CorruptFileError(str(error)) from None


def load_weights(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """The weights, trained and frozen. Raises RunError if a file is missing or corrupt."""
    weights, path = load_tensors(checkpoint.model_path, digest=checkpoint.digests[WEIGHTS_FILE]), checkpoint.frozen_path
    if path is None:
        return weights
    if not path.exists():
        raise RunError(f"{path}: there is no such file; it has the frozen weights of all checkpoints of this run")
    return weights | load_tensors(path, digest=checkpoint.frozen)


def load_checkpoint(checkpoint: Checkpoint) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The weights, and the tensors of the optimizer. Raises RunError if a file is missing or corrupt."""
    return (
        load_weights(checkpoint),
        load_tensors(checkpoint.optimizer_path, digest=checkpoint.digests[OPTIMIZER_FILE]),
    )


def restore(checkpoint: Checkpoint, model: nn.Module, optimizer: torch.optim.Optimizer | None) -> None:
    """Load model and optimizer from a checkpoint; None for a new optimizer.

    Raises RunError if tensors do not match this model and optimizer.
    """
    weights, tensors = load_checkpoint(checkpoint)
    copy_weights(model, weights, checkpoint.model_path)
    if optimizer is not None:
        state, groups = _optimizer_state(tensors, checkpoint, optimizer), optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state, "param_groups": groups})


def _optimizer_state(
    tensors: dict[str, Tensor], checkpoint: Checkpoint, optimizer: torch.optim.Optimizer
) -> dict[int, dict[str, Tensor]]:
    """The state by the number of each parameter. Names and shapes are checked, which `load_state_dict` does not."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    shapes = {str(index): parameter.shape for index, parameter in enumerate(parameters)}
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        index, _, key = name.partition(".")
        shape = shapes.get(index)
        if shape is None or (tensor.dim() > 0 and tensor.shape != shape):
            raise RunError(f"{checkpoint.optimizer_path}: `{name}` does not match the trained weights")
        state.setdefault(int(index), {})[key] = tensor
    return state
