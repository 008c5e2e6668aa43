"""Size, memory and speed of a training that is not started: the work of `seq2attn train --dry-run`."""

from torch import nn

from seq2attn.data.prepare import is_prepared
from seq2attn.data.prepared_data import load_prepared
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.io.tables import format_table
from seq2attn.io.terminal import plural
from seq2attn.models.build import assumed_vocab_sizes, build_for_inspection, count_parameters, count_trained
from seq2attn.training.checkpoints.checkpoint import checkpoint_folders
from seq2attn.training.distributed import DistributedContext, training_device
from seq2attn.training.initial_weights import check_parts
from seq2attn.training.resolve import auto_batch_tokens, first_epoch_lengths
from seq2attn.training.speed import measure_speed


def describe_training(experiment: ExperimentConfig, *, is_new: bool = True, with_parts: bool = False) -> str:
    """Five lines about a training, new or resumed, and on request the table of all parts of its model.

    Raises FieldError as `check_parts`, and UserError if an update does not fit in memory.
    """
    num_trained, config = check_parts(experiment, needs_initial_run=is_new), experiment.model
    source, target = assumed_vocab_sizes(experiment.tokenizer)
    model = build_for_inspection(config, source, target)
    size, trained = count_parameters(model), num_trained or count_trained(model)
    copies = 3 + (experiment.training.ema_decay is not None)  # gradients, two of Adam, averages
    memory = (size + copies * trained) / 2**18
    lines = [
        f"model: {config.encoder.kind} and {config.decoder.kind}, {size:,} parameters, {trained:,} of them trained",
        f"vocabularies: {source:,} and {target:,} entries (at most; 8,000 without a `vocab_size`)",
        f"memory: up to {memory:,.0f} MiB for weights, gradients, optimizer; a batch needs more",
        f"batch: {experiment.training.batch.tokens} tokens",
        f"time: {_measure(experiment)}",
    ]
    return "\n".join(lines + [parts_table(model)] * with_parts)


def _measure(experiment: ExperimentConfig) -> str:
    """The time of an update and of a validation, if the text is prepared."""
    training, folder = experiment.training, experiment.run_dir
    kept = bool(checkpoint_folders(folder))
    if not is_prepared(experiment.data, experiment.tokenizer, folder, keep_tokenizers=kept):
        return "measured once this text is prepared: seq2attn prepare CONFIG"
    prepared, device = load_prepared(folder), training_device(training.device)
    if isinstance(training.batch.tokens, str):
        lengths = first_epoch_lengths(prepared.train, training)
        training = training.with_batch_tokens(auto_batch_tokens(lengths, training.batch.gradient_accumulation))
    experiment = experiment.model_copy(update={"training": training})
    speed = measure_speed(experiment, prepared, DistributedContext(0, 1, device), seconds=3.0)
    times = f"{speed.seconds_per_update:.2g} s an update, {speed.seconds_per_validation:.2g} s a validation"
    tokens, busy = plural(training.batch.require_tokens(), "token"), ", which was busy" if speed.is_busy else ""
    return f"{times}, with {tokens} on {device}{busy}"


def parts_table(model: nn.Module) -> str:
    """The parts of a model, their shapes and numbers of parameters; tied parameters count once in a part."""
    rows = [("part", "type or shape", "parameters")]
    for name, part in model.named_children():
        rows.append((name, type(part).__name__, f"{count_parameters(part):,}"))
        for key, parameter in part.named_parameters():
            shape = " x ".join(map(str, parameter.shape)) or "1"
            rows.append((f"{name}.{key}", shape, f"{parameter.numel():,}"))
    return format_table(rows, num_text_columns=2)
