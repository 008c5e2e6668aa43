"""Translating with the mean of several checkpoints (Vaswani et al. 2017, section 6.1)."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from seq2attn.errors import RunError, UserError
from seq2attn.io.lock import lock_directory
from seq2attn.io.weights import load_tensors, tensor_specs
from seq2attn.models.weights import check_vocabularies
from seq2attn.run_directory import RunDirectory
from seq2attn.training.checkpoints.checkpoint import WEIGHTS_FILE, Checkpoint, list_checkpoints
from seq2attn.training.checkpoints.retention import (
    best_checkpoints,
    comparable_checkpoints,
    validated_checkpoints,
)


def average_run(folder: Path, *, last: int | None, best: int | None) -> str:
    """Make the mean of the `last` or the `best` checkpoints of a run the weights that translate; says which.

    Raises UserError when not exactly one of both is given, RunError when there are not as many checkpoints.
    """
    if (last is None) == (best is None):
        raise UserError("give either --last N or --best N")
    run = RunDirectory(folder)
    metric = run.load_config().training.validation.metric
    every = validated_checkpoints(folder)
    unvalidated = "" if every else "; there was no validation yet, whatever their quality"
    every = every or list_checkpoints(folder)
    count = last or best or 1
    chosen = every[-count:] if last else _best(folder, every, count, metric)
    if len(chosen) < count:
        raise RunError(
            f"{folder}: keeps {len(chosen)} checkpoints, not {count}; average fewer, or train with more validations and"
            f" a larger `training.checkpoints.keep_{'last' if last else 'best'}`"
        )
    source, target = run.load_tokenizers()
    vocabularies = source.vocabulary, target.vocabulary
    for checkpoint in chosen:
        check_vocabularies(checkpoint.model_path, folder, vocabularies)
    names = [checkpoint.folder.name for checkpoint in chosen]
    with lock_directory(folder):
        run.save_model(average_weights(chosen), vocabularies, {"checkpoints": names})
    return f"{run.weights_path} is now the mean of {', '.join(names)}{unvalidated}"


def _best(folder: Path, every: list[Checkpoint], count: int, metric: str) -> list[Checkpoint]:
    """The best by `metric`, of those that have it and were validated in the same way as the newest."""
    comparable = comparable_checkpoints(every, metric, every[-1].train_state.validation_digest) if every else []
    if len(comparable) < count <= len(every):
        raise RunError(
            f"{folder}: {len(comparable)} of {len(every)} checkpoints have a {metric} to compare, not {count}: the"
            " others were validated by another metric or on other text, or not at all; --last N asks for none"
        )
    return best_checkpoints(comparable, count, metric)


def average_weights(checkpoints: list[Checkpoint]) -> dict[str, Tensor]:
    """The mean of the weights of several checkpoints, summed in double precision.

    Raises: RunError when they are not of the same model.
    """
    first, *others = (load_tensors(c.model_path, digest=c.digests[WEIGHTS_FILE]) for c in checkpoints)
    sums = {name: tensor.double() for name, tensor in first.items()}
    for weights, checkpoint in zip(others, checkpoints[1:], strict=True):
        if tensor_specs(weights) != tensor_specs(first):
            raise RunError(f"{checkpoint.model_path}: has other weights than {checkpoints[0].model_path}")
        for name, total in sums.items():
            total += weights[name]
    return {name: (total / len(checkpoints)).to(first[name].dtype) for name, total in sums.items()}
