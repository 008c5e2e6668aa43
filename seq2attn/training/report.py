"""Reports of training and validation in the logs."""

from __future__ import annotations

import math

import torch

from seq2attn.experiment.training_config import TrainingConfig
from seq2attn.training.auto_settings import time_limit_warning
from seq2attn.training.metrics_logger import MetricsLogger
from seq2attn.training.session import Session
from seq2attn.training.train_state import MAX_LOSS, TrainMetrics, TrainState, describe_speed, zero_metrics
from seq2attn.training.validation import ValidationResult, Validator, format_scores

MAX_ZEROS = 2
"""Number of validations in a row with BLEU 0.00 that causes a warning."""


def report_training(
    session: Session, training: TrainingConfig, state: TrainState, metrics: TrainMetrics
) -> TrainMetrics:
    """Log the means since the last report, over the target tokens of all processes. Returns metrics without updates."""
    if not metrics.num_target_tokens:  # all updates were skipped
        return metrics
    device = session.distributed.device
    loss, likelihood, guided, num_guided = session.distributed.all_reduce_sum(
        float(metrics.loss), float(metrics.negative_log_likelihood), *metrics.guided_alignment.tolist()
    )
    numbers = {
        "epoch": round(state.epochs, 3),
        "target_tokens": state.target_tokens,
        "loss": loss / metrics.num_target_tokens,
        "perplexity": math.exp(min(likelihood / metrics.num_target_tokens, MAX_LOSS)),
        "learning_rate": metrics.lr,
        "gradient_norm": float(metrics.grad_norm),
        "target_tokens_per_second": metrics.num_target_tokens / metrics.seconds,
        "seconds": state.seconds,
    }
    if device.type == "cuda":
        numbers["gpu_memory_mib"] = torch.cuda.max_memory_allocated(device) >> 20
        numbers["gpu_reserved_mib"] = torch.cuda.max_memory_reserved(device) >> 20
    if state.num_skipped:
        numbers["skipped"] = state.num_skipped
    if num_guided:
        numbers["guided_alignment_loss"] = guided / num_guided
    guided_text = f"  guided {numbers['guided_alignment_loss']:.3f}" if num_guided else ""
    session.logger.log_metrics("train", state.update, numbers)
    session.logger.log(
        f"epoch {numbers['epoch']:.2f}  update {state.update}  loss {numbers['loss']:.3f}"
        f"  ppl {numbers['perplexity']:.2f}{guided_text}  lr {numbers['learning_rate']:.3g}"
        f"  {describe_speed(metrics, state, training.max_duration)}"
    )
    is_first = state.update == training.report_every
    if is_first and (warning := time_limit_warning(training, state)):
        session.logger.log_session(warning)
    return zero_metrics(device)


def report_validation(
    logger: MetricsLogger, validator: Validator, state: TrainState, result: ValidationResult, *, is_best: bool
) -> None:
    """Log scores and sample translations."""
    metrics: dict[str, float | str] = {"epoch": round(state.epochs, 3), **result.scores}
    if result.signature is not None:
        metrics["signature"] = result.signature
    logger.log_metrics("validation", state.update, {**metrics, "seconds": state.seconds})
    logger.log(
        f"validation at update {state.update}: {format_scores(result.scores)}"
        f"{' (greedy)' if result.signature else ''}{'  best so far' if is_best else ''}"
    )
    if state.zero_bleu == MAX_ZEROS:
        logger.log(
            "warning: BLEU is 0.00 in two validations while the loss falls, so it does not rank them. If"
            " translations in samples.txt share words with their references, set `evaluation.tokenize` for this"
            " language, or `training.validation.metric` to chrf or loss; otherwise train longer"
        )
    if result.translations:
        logger.log_samples(state.update, validator.format_samples(result.translations))
