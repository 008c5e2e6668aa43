"""Validation during training, with its reports, checkpoints and the weights for translation."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from seq2attn.data.prepare import PreparedData
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.files import remove_temporary
from seq2attn.io.weights import copy_weights, unique_state_dict
from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.nn.lora import merge_adapters, remove_adapters
from seq2attn.optim.ema import WeightAverage
from seq2attn.training.checkpoints.averaging import average_weights, load_merged, newest_checkpoints
from seq2attn.training.checkpoints.checkpoint import Checkpoint, save_checkpoint
from seq2attn.training.checkpoints.retention import (
    best_checkpoints,
    comparable_checkpoints,
    prune,
    rank,
    validated_checkpoints,
)
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.metrics_logger import MetricsLogger
from seq2attn.training.nonfinite import is_usable_loss
from seq2attn.training.train_state import TrainState
from seq2attn.training.validation import ValidationResult, Validator, format_scores

ZERO_BLEU, MAX_ZEROS = 0.005, 2
"""BLEU below which it is printed as 0.00, and the number of such validations in a row that causes a warning."""


class CheckpointManager:
    """Validates the model, and keeps checkpoints and the weights for translation."""

    def __init__(
        self,
        experiment: ExperimentConfig,
        run: RunDirectory,
        prepared: PreparedData,
        objective: TrainingLoss,
        optimizer: torch.optim.Optimizer,
        average: WeightAverage | None,
        world: DistributedContext,
        reporter: MetricsLogger,
    ) -> None:
        self.config, self.run = experiment.training, run
        self.objective, self.optimizer, self.average = objective, optimizer, average
        self.world, self.reporter = world, reporter
        self.vocabularies = prepared.source.vocabulary, prepared.target.vocabulary
        self.metric = self.config.validation.metric
        self.validator = Validator(experiment, prepared, world)

    def validate_and_save(self, state: TrainState) -> bool:
        """Validate, update `state`, save a checkpoint, and keep the best weights.

        Returns False, and saves nothing, if the loss is not finite.
        """
        start = time.monotonic()
        with self._averaged():
            result = self.validator.validate(self.objective)
            if not is_usable_loss(result.scores["loss"]):
                return False
            (seconds,) = self.world.all_reduce_sum((time.monotonic() - start) / self.world.size)
            state.seconds += seconds
            is_best = self._update_state(state, result.scores)
            self._report(state, result, is_best)
            if self.world.is_main_process:
                checkpoint = self._save(state)
                if is_best:
                    self._publish_weights(self._merged_weights(), [checkpoint], result.scores)
                self._prune()
            self.world.barrier()
            return True

    def save(self, state: TrainState) -> None:
        """Save a checkpoint at an interruption, without validation.

        Before the first validation its weights are used for translation, as there are no others.
        """
        if self.world.is_main_process:
            with self._averaged():
                checkpoint = self._save(state)
                if not state.last_validated_update:
                    self._publish_weights(self._merged_weights(), [checkpoint], {})
            if not state.last_validated_update:
                self.reporter.log_session(
                    f"no validation yet: until there is one, the weights for translation are those of update"
                    f" {state.update:,}, of unknown quality"
                )
            self._prune()
        self.world.barrier()

    def recover(self, state: TrainState) -> None:
        """Complete what a kill interrupted after the checkpoint that training resumes from.

        Checkpoints are ranked again if the metric, the dev set or the settings of scores have changed.
        """
        if self.average is not None:
            self.average.swap()  # a checkpoint has the averages in the place of the weights
        metrics, metric = self.validator.metrics, self.metric
        for line in [metrics.note, *metrics.warnings([] if metric == "loss" else [metric])]:
            if line:
                self.reporter.log_session(line)
        is_changed = (state.metric, state.validation_digest) != (metric, self.validator.digest)
        if is_changed:
            before, (state.metric, state.validation_digest) = state.metric, (metric, self.validator.digest)
            self._rank_again(state, before)
        if self.world.is_main_process:
            best = [c for c in validated_checkpoints(self.run.folder) if c.train_state.update == state.best_update]
            if best and (is_changed or not self.run.weights_cover_checkpoint(best[0].folder.name, metric)):
                self._publish_weights(load_merged(best[0]), best, state.best_value)
            remove_temporary(self.run.folder, keep_folders=True)  # an `export` may be at work in them
            self._prune()
        self.world.barrier()  # the others may read the weights next

    def finalize(self, state: TrainState) -> str:
        """Average checkpoints at the end of training, if configured.

        Returns the origin of the weights for translation, with their scores if these are known.
        """
        config = self.config.checkpoints
        if config.average == "none":
            names = self.run.weights_origin()["checkpoints"]
            if len(names) > 1:
                return f"the mean of {len(names)} checkpoints by `seq2attn average`"
            known = f" ({format_scores(state.best_value)})" if int(names[0]) == state.best_update else ""
            return f"update {int(names[0]):,}{known}"
        is_last = config.average == "last"
        chosen = newest_checkpoints(self.run, config.keep_last) if is_last else self._best_checkpoints()
        if is_last and len(chosen) < min(config.keep_last, len(validated_checkpoints(self.run.folder))):
            self.reporter.log("warning: the mean is of the checkpoints since the last one that was removed")
        weights = average_weights(chosen)
        remove_adapters(self.objective.model)
        copy_weights(self.objective.model, weights, self.run.weights_path)
        scores = self.validator.validate(self.objective).scores
        origin = f"the mean of {len(chosen)} checkpoints ({format_scores(scores)})"
        self.reporter.log(origin)
        if self.world.is_main_process:
            self._publish_weights(weights, chosen, scores, average=config.average)
        self.world.barrier()
        return origin

    def _averaged(self) -> AbstractContextManager[None]:
        """The model with the weights for translation."""
        return nullcontext() if self.average is None else self.average.applied()

    def _rank_again(self, state: TrainState, before: str) -> None:
        """Choose the best of the kept checkpoints with comparable scores; patience restarts."""
        checkpoints = validated_checkpoints(self.run.folder)
        comparable = comparable_checkpoints(checkpoints, self.metric, state.validation_digest)
        best = self.world.all_gather(best_checkpoints(comparable, 1, self.metric))[0]
        state.best_value, state.best_update = (
            (best[0].train_state.scores, best[0].train_state.update) if best else ({}, 0)
        )
        state.validations_since_best = state.validations_since_lr_drop = state.zero_bleu = 0
        if not checkpoints:
            return
        reason = f"the metric is {self.metric} and was {before}"
        if before == self.metric:
            reason = "the dev set, or the settings of scores, have changed"
        result = f"the best is update {state.best_update:,}" if best else "there is no best one yet"
        self.reporter.log_session(f"checkpoints are ranked again, and patience restarts ({reason}): {result}")
        if others := [f"{c.train_state.update:,}" for c in checkpoints if c not in comparable]:
            self.reporter.log_session(
                f"warning: not ranked, without a comparable {self.metric}: update {', '.join(others)}"
            )

    def _save(self, state: TrainState) -> Checkpoint:
        model, log_sizes = self.objective.model, self.reporter.log_sizes()
        return save_checkpoint(self.run.folder, model, self.vocabularies, self.optimizer, state, log_sizes)

    def _prune(self) -> None:
        prune(self.run.folder, self._best_checkpoints(), keep_last=self.config.checkpoints.keep_last)

    def _best_checkpoints(self) -> list[Checkpoint]:
        validated = validated_checkpoints(self.run.folder)
        comparable = comparable_checkpoints(validated, self.metric, self.validator.digest)
        return best_checkpoints(comparable, max(1, self.config.checkpoints.keep_best), self.metric)

    def _merged_weights(self) -> dict[str, Tensor]:
        return merge_adapters(unique_state_dict(self.objective.model))

    def _publish_weights(
        self,
        weights: Mapping[str, Tensor],
        checkpoints: list[Checkpoint],
        scores: dict[str, float],
        *,
        average: str | None = None,
    ) -> None:
        names = [checkpoint.folder.name for checkpoint in checkpoints]
        origin: dict[str, Any] = {"checkpoints": names, "metric": self.metric, "scores": scores}
        if average is not None:
            origin["average"] = average
        self.run.save_model(weights, self.vocabularies, origin)

    def _update_state(self, state: TrainState, scores: dict[str, float]) -> bool:
        """Compare a validation with the best. Returns True for the best, of equal ones the newest; these do not reset
        patience."""
        schedule, current = self.config.lr_schedule, rank(scores, self.metric)
        best = rank(state.best_value, self.metric) if state.best_value else None
        is_best, is_better = best is None or current >= best, best is None or current > best
        state.last_validated_update, state.scores = state.update, scores
        state.validations_since_best = 0 if is_better else state.validations_since_best + 1
        state.validations_since_lr_drop = 0 if is_better else state.validations_since_lr_drop + 1
        is_zero = self.metric == "bleu" and scores["bleu"] < ZERO_BLEU and is_better  # with a lower loss
        state.zero_bleu = state.zero_bleu + 1 if is_zero else 0
        if is_best:
            state.best_value, state.best_update = scores, state.update
        if schedule.kind == "plateau" and state.validations_since_lr_drop >= schedule.patience:
            state.num_lr_drops, state.validations_since_lr_drop = state.num_lr_drops + 1, 0
        return is_best

    def _report(self, state: TrainState, result: ValidationResult, is_best: bool) -> None:
        metrics: dict[str, float | str] = {"epoch": round(state.epochs, 3), **result.scores}
        if result.signature is not None:
            metrics["signature"] = result.signature
        self.reporter.log_metrics("validation", state.update, {**metrics, "seconds": state.seconds})
        self.reporter.log(
            f"validation at update {state.update}: {format_scores(result.scores)}"
            f"{' (greedy)' if result.signature else ''}{'  best so far' if is_best else ''}"
        )
        if state.zero_bleu == MAX_ZEROS:
            self.reporter.log(
                "warning: BLEU is 0.00 in two validations while the loss falls, so it does not rank them. If"
                " translations in samples.txt share words with their references, set `evaluation.tokenize` for this"
                " language, or `training.validation.metric` to chrf or loss; otherwise train longer"
            )
        if result.translations:
            self.reporter.log_samples(state.update, self.validator.format_samples(result.translations))
