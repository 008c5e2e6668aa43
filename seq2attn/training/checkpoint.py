"""Checkpoints: folders of a run, each whole or not there, without pickle.

checkpoints/00001200/model.safetensors     the weights
                     training.safetensors  what the optimiser remembers (the newest ones only)
                     state.json            where training stood, and how good it was
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from seq2attn.errors import RunError
from seq2attn.weights import Vocabularies, load_tensors, own_weights, put_weights, save_tensors, save_weights

FORMAT = 1
FOLDER, MODEL, TRAINING, STATE = "checkpoints", "model.safetensors", "training.safetensors", "state.json"


@dataclass
class TrainState:
    """All that a resumed run needs beside weights and optimiser. Randomness is a function of seed and update."""

    update: int = 0
    epoch: int = 0
    cursor: int = 0  # updates of the running epoch that are made
    updates_an_epoch: int = 1  # of the running epoch
    seconds: float = 0.0  # of training, over all sittings
    words: int = 0  # target words learnt from
    best: float | None = None  # the best value of the validation metric
    stale: int = 0  # validations since the best
    waited: int = 0  # validations since the best or the last plateau
    plateaus: int = 0
    baseline: float | None = (
        None  # a target word's log-probability of late, where hard attention learns by drawing
    )

    @property
    def epochs(self) -> float:
        """Epochs that are over, the running one in part."""
        return self.epoch + self.cursor / self.updates_an_epoch


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk."""

    folder: Path
    state: TrainState
    score: float | None  # the validation metric, where this checkpoint was validated

    @property
    def model(self) -> Path:
        """The file of weights."""
        return self.folder / MODEL


def save_checkpoint(
    run: Path,
    model: nn.Module,
    vocabularies: Vocabularies,
    optimizer: torch.optim.Optimizer,
    state: TrainState,
    score: float | None,
) -> Checkpoint:
    """Write a checkpoint under a temporary name, and give it its own when it is whole."""
    folder = run / FOLDER / f"{state.update:08d}"
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    save_weights(own_weights(model), vocabularies, partial / MODEL)
    tensors, numbers = _flatten(optimizer.state_dict()["state"])
    save_tensors(tensors, partial / TRAINING)
    content = {
        "format": FORMAT,
        "score": score,
        "state": dataclasses.asdict(state),
        "optimizer": numbers,
    }
    (partial / STATE).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    for file in partial.iterdir():
        with file.open("rb") as handle:
            os.fsync(handle.fileno())
    _remove(folder)
    partial.rename(folder)
    return Checkpoint(folder, state, score)


def refuse_trained(run: Path) -> None:
    """Raises RunError when `run` holds a training, which new tokenisers would make useless."""
    if list_checkpoints(run):
        raise RunError(
            f"{run}: already holds a training; go on with it by `train --resume`, give another `run`"
            " (--set run=DIR), or remove the folder"
        )


def list_checkpoints(run: Path) -> list[Checkpoint]:
    """The checkpoints of a run, oldest first."""
    folders = sorted((run / FOLDER).glob("[0-9]*[0-9]")) if (run / FOLDER).is_dir() else []
    return [_read(folder) for folder in folders]


def resume(checkpoint: Checkpoint, model: nn.Module, optimizer: torch.optim.Optimizer) -> TrainState:
    """Put model and optimiser back to where the checkpoint was made."""
    put_weights(model, load_tensors(checkpoint.model), checkpoint.model)
    tensors = load_tensors(checkpoint.folder / TRAINING)
    numbers = json.loads((checkpoint.folder / STATE).read_text(encoding="utf-8"))["optimizer"]
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": _unflatten(tensors, numbers), "param_groups": groups})
    return dataclasses.replace(checkpoint.state)


def prune(run: Path, *, keep_last: int, keep_best: int, higher_is_better: bool, resumable: int = 2) -> None:
    """Drop checkpoints that are neither among the last nor the best, and what older ones need only for resuming."""
    every = list_checkpoints(run)
    kept = {c.folder for c in every[-max(keep_last, 1) :]}
    kept |= {c.folder for c in best_checkpoints(every, keep_best, higher_is_better=higher_is_better)}
    for checkpoint in every:
        if checkpoint.folder not in kept:
            _remove(checkpoint.folder)
    for checkpoint in every[:-resumable]:
        (checkpoint.folder / TRAINING).unlink(missing_ok=True)


def _remove(folder: Path) -> None:
    """Take a checkpoint's name away before its files: killed in between, none is left that has only some of them."""
    if folder.is_dir():
        going = folder.with_name(folder.name + ".removed")
        shutil.rmtree(going, ignore_errors=True)
        folder.rename(going)
        shutil.rmtree(going)


def best_checkpoints(every: list[Checkpoint], count: int, *, higher_is_better: bool) -> list[Checkpoint]:
    """The best validated ones, best first; of equals the newer."""
    sign = -1.0 if higher_is_better else 1.0
    scored = [(sign * c.score, -c.state.update, c) for c in every if c.score is not None]
    return [c for _, _, c in sorted(scored, key=lambda item: item[:2])[:count]]


def average(checkpoints: list[Checkpoint]) -> dict[str, Tensor]:
    """The mean of the weights of several checkpoints, summed in double precision."""
    first, *others = (load_tensors(checkpoint.model) for checkpoint in checkpoints)
    sums = {name: tensor.double() for name, tensor in first.items()}
    for weights in others:
        for name, total in sums.items():
            total += weights[name]
    return {name: (total / len(checkpoints)).to(first[name].dtype) for name, total in sums.items()}


def _read(folder: Path) -> Checkpoint:
    path = folder / STATE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise RunError(f"{path}: is of format {content['format']}, not {FORMAT}")
        return Checkpoint(folder, TrainState(**content["state"]), content["score"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"{path}: cannot be read ({error}); remove the folder to use an older checkpoint"
        ) from None


def _flatten(state: dict[int, dict[str, Any]]) -> tuple[dict[str, Tensor], dict[str, float]]:
    tensors = {f"{i}.{k}": v for i, part in state.items() for k, v in part.items() if isinstance(v, Tensor)}
    numbers = {
        f"{i}.{k}": v for i, part in state.items() for k, v in part.items() if isinstance(v, int | float)
    }
    return tensors, numbers


def _unflatten(tensors: dict[str, Tensor], numbers: dict[str, float]) -> dict[int, dict[str, Any]]:
    state: dict[int, dict[str, Any]] = {}
    for name, value in [*tensors.items(), *numbers.items()]:
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = value
    return state
