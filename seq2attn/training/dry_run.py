"""Size, memory and speed of a training that is not started: the work of `seq2attn train --dry-run`."""

from __future__ import annotations

from seq2attn.data.prepared_data import PREPARED, load_prepared
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.models.build import (
    ASSUMED_VOCAB_SIZE,
    assumed_vocab_sizes,
    build_on_meta_device,
    count_parameters,
    count_trained,
    dry_run_summary,
)
from seq2attn.nn.device import configure_cuda
from seq2attn.training.distributed import DistributedContext, training_device
from seq2attn.training.initial_weights import check_parts
from seq2attn.training.resolve import auto_batch_tokens
from seq2attn.training.speed import measure_speed

BYTES, NUM_STATES = 4, 3
"""Bytes of a number; numbers beside a trained weight: the gradient, and at most two of the optimizer."""
SECONDS = 3.0
"""Time to measure the speed in."""


def describe_training(experiment: ExperimentConfig, *, is_new: bool = True, with_parts: bool = False) -> str:
    """Five lines about a training, new or resumed, and on request the table of all parts of its model.

    The speed is measured if the text is prepared. Raises FieldError as `check_parts`, and UserError if an update does
    not fit in memory.
    """
    num_trained = check_parts(experiment, needs_initial_run=is_new)
    model, batch = experiment.model, experiment.training.batch
    source, target = assumed_vocab_sizes(experiment.tokenizer)
    empty = build_on_meta_device(model, source, target)
    size = count_parameters(empty)
    trained = count_trained(empty) if num_trained is None else num_trained
    kinds = f"{model.encoder.kind} encoder, {model.decoder.kind} decoder"
    mebibytes = BYTES * (size + NUM_STATES * trained) / 2**20
    parts = [dry_run_summary(model, experiment.tokenizer, num_trained)] if with_parts else []
    return "\n".join(
        (
            f"model: {kinds}, {size:,} parameters, {trained:,} of them trained",
            f"vocabularies: {source:,} and {target:,} entries (at most; {ASSUMED_VOCAB_SIZE:,} without a `vocab_size`)",
            f"memory: up to {mebibytes:,.0f} MiB for weights, gradients and optimizer; a batch needs more",
            f"batch: {batch.tokens} tokens, {batch.gradient_accumulation} per update",
            f"time: {_measure(experiment)}",
            *parts,
        )
    )


def _measure(experiment: ExperimentConfig) -> str:
    """The time of an update and of a validation, with the prepared text of the run directory."""
    training, folder = experiment.training, experiment.run_dir
    if not (folder / PREPARED).is_file():
        return "measured once the text is prepared: seq2attn prepare CONFIG"
    if training.batch.tokens == "fit":
        return "not measured with `training.batch.tokens: fit`"
    prepared, device = load_prepared(folder), training_device(training.device)
    if training.batch.tokens == "auto":
        lengths = prepared.train.corpus.lengths
        training = training.with_batch_tokens(auto_batch_tokens(lengths, training.batch.gradient_accumulation))
    configure_cuda(device, tf32=training.precision != "float32")
    experiment = experiment.model_copy(update={"training": training})
    speed = measure_speed(experiment, prepared, DistributedContext(0, 1, device), SECONDS)
    times = f"{speed.seconds_per_update:.2g} s an update, {speed.seconds_per_validation:.2g} s a validation"
    return f"{times}, on {device} with the text in {folder}{'; the machine was busy' if speed.is_busy else ''}"
