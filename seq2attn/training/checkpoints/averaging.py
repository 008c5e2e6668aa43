"""Checkpoint averaging: the mean of the weights of several checkpoints (Vaswani et al. 2017, section 6.1)."""

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from seq2attn.errors import RunError, UserError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.files import read_objects
from seq2attn.io.lock import lock_directory
from seq2attn.io.terminal import plural
from seq2attn.io.weights import tensor_specs
from seq2attn.models.build import check_vocabularies
from seq2attn.nn.lora import merge_adapters
from seq2attn.training.checkpoints.checkpoint import Checkpoint, list_checkpoints, load_weights
from seq2attn.training.checkpoints.retention import rank_checkpoints, validated_checkpoints
from seq2attn.training.metrics_logger import METRICS_FILE


@dataclass(frozen=True)
class AveragedWeights:
    """The weights for translation of a run, and the checkpoints whose mean they are; prints as a message."""

    path: Path
    checkpoints: tuple[str, ...]
    are_validated: bool

    def __str__(self) -> str:
        several = len(self.checkpoints) > 1
        content = "is now the mean of checkpoints" if several else "now has the weights of checkpoint"
        note = "" if self.are_validated else "; none of these was validated"
        return f"{self.path} {content} {', '.join(self.checkpoints)}{note}"


def average(run: Path | str, *, last: int | None = None, best: int | None = None) -> AveragedWeights:
    """Replacement of the weights for translation by the mean of the `last` or the `best` checkpoints of a run.

    Raises UserError unless exactly one of both is given, and is at least 1; RunError if checkpoints are missing.
    """
    if (last is None) == (best is None):
        raise UserError("give either ``last=N`` or ``best=N``")
    name, count = ("best", best or 0) if last is None else ("last", last)
    if count < 1:
        raise UserError(f"``{name}={count}``: the mean is that of at least 1 checkpoint; give a larger number")
    directory, folder = RunDirectory(Path(run)), Path(run)
    metric = directory.load_config().training.validation.metric
    validated = validated_checkpoints(folder)
    checkpoints = validated or list_checkpoints(folder)
    chosen = checkpoints[-count:] if name == "last" else _best(folder, checkpoints, count, metric)
    if len(chosen) < count:
        raise RunError(
            f"{folder}: has {plural(len(chosen), 'checkpoint')}, not {count}; average fewer, or train with more"
            f" validations and a larger `training.checkpoints.keep_{name}`"
        )
    if name == "last" and (removed := _removed_between(directory, chosen)):
        raise RunError(
            f"{folder}: of the newest {count} checkpoints, update {removed[-1]:,} was removed; average fewer, or"
            " train with a larger `training.checkpoints.keep_last`"
        )
    vocabularies = directory.load_tokenizers().vocabularies
    for checkpoint in chosen:
        check_vocabularies(checkpoint.model_path, folder, vocabularies)
    names = tuple(checkpoint.folder.name for checkpoint in chosen)
    with lock_directory(folder, advice="average a copy of the run"):
        directory.save_model(average_weights(chosen), vocabularies, {"checkpoints": [*names]})
    return AveragedWeights(directory.weights_path, names, bool(validated))


def _removed_between(run: RunDirectory, chosen: list[Checkpoint]) -> list[int]:
    """The validated updates from the first of the chosen checkpoints on whose checkpoints were removed."""
    path, updates = run.folder / METRICS_FILE, [checkpoint.train_state.update for checkpoint in chosen]
    lines = read_objects(path, "remove the file; removed checkpoints are then not detected") if path.exists() else ()
    updates_of_lines = [line.get("update") for line in lines if line.get("kind") == "validation"]
    validated = {update for update in updates_of_lines if type(update) is int}
    return sorted(update for update in validated.difference(updates) if updates[0] < update < updates[-1])


def newest_checkpoints(run: RunDirectory, count: int) -> list[Checkpoint]:
    """The newest `count` validated checkpoints, or those of them since the last one that was removed."""
    chosen = validated_checkpoints(run.folder)[-count:]
    removed = _removed_between(run, chosen)
    return [checkpoint for checkpoint in chosen if not removed or checkpoint.train_state.update > removed[-1]]


def _best(folder: Path, checkpoints: list[Checkpoint], count: int, metric: str) -> list[Checkpoint]:
    """The best of the checkpoints whose scores are comparable with those of the newest."""
    digest = checkpoints[-1].train_state.validation_digest if checkpoints else ""
    ranked = rank_checkpoints(checkpoints, metric, digest)
    if len(ranked) < count <= len(checkpoints):
        raise RunError(
            f"{folder}: {len(ranked)} of {len(checkpoints)} checkpoints have a comparable {metric}, not {count}:"
            " the others were validated by another metric or on other text, or not at all; ``last=N`` needs no scores"
        )
    return ranked[:count]


def load_merged(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """The weights of a checkpoint, with its adapters merged into them."""
    return merge_adapters(load_weights(checkpoint))


def average_weights(checkpoints: list[Checkpoint]) -> dict[str, Tensor]:
    """The mean of the weights, summed in double precision. Raises RunError if the models differ."""
    first, *others = map(load_merged, checkpoints)
    sums = {name: tensor.double() for name, tensor in first.items()}
    for weights, checkpoint in zip(others, checkpoints[1:], strict=True):
        if tensor_specs(weights) != tensor_specs(first):
            raise RunError(f"{checkpoint.model_path}: has other weights than {checkpoints[0].model_path}")
        for name, total in sums.items():
            total += weights[name]
    return {name: (total / len(checkpoints)).to(first[name].dtype) for name, total in sums.items()}
