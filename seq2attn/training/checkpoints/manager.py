"""What comes of a validation: what is reported of it, and which weights are kept."""

from __future__ import annotations

import time
from collections.abc import Mapping

import torch
from torch import Tensor

from seq2attn.data.prepare import PreparedData
from seq2attn.experiment import ExperimentConfig
from seq2attn.io.weights import copy_weights, load_tensors, unique_state_dict
from seq2attn.run_directory import RunDirectory
from seq2attn.training.checkpoints.averaging import average_weights
from seq2attn.training.checkpoints.checkpoint import WEIGHTS_FILE, Checkpoint, save_checkpoint
from seq2attn.training.checkpoints.retention import (
    best_checkpoints,
    comparable_checkpoints,
    prune,
    rank,
    validated_checkpoints,
)
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.loss import TrainingLoss
from seq2attn.training.metrics_logger import MetricsLogger
from seq2attn.training.nonfinite import is_usable_loss
from seq2attn.training.train_state import TrainState
from seq2attn.training.validation import ValidationResult, Validator, describe

ZERO, TWICE = 0.005, 2
"""BLEU that is shown as 0.00, and in how many validations in a row it is warned about."""


class CheckpointManager:
    """Tries the model on the dev set, and keeps checkpoints and the weights that translate."""

    def __init__(
        self,
        experiment: ExperimentConfig,
        run: RunDirectory,
        prepared: PreparedData,
        objective: TrainingLoss,
        optimizer: torch.optim.Optimizer,
        world: DistributedContext,
        reporter: MetricsLogger,
    ) -> None:
        self.config, self.run = experiment.training, run
        self.objective, self.optimizer = objective, optimizer
        self.world, self.reporter = world, reporter
        self.vocabularies = prepared.source.vocabulary, prepared.target.vocabulary
        self.metric = self.config.validation.metric
        self.validator = Validator(self.config, experiment.evaluation, prepared, world)

    def validate_and_save(self, state: TrainState) -> float:
        """Try the model, write into `state` how it compares, save a checkpoint, and keep the best weights.

        Returns the loss. Nothing is written or kept if that is no number to be used.
        """
        started = time.monotonic()
        found = self.validator.validate(self.objective)
        loss = found.scores["loss"]
        if not is_usable_loss(loss):
            return loss
        (seconds,) = self.world.all_reduce_sum((time.monotonic() - started) / self.world.size)
        state.seconds += seconds
        is_best = self._update_state(state, found.scores)
        self._report(state, found, is_best)
        if self.world.is_main_process:
            checkpoint = self._save(state)
            if is_best:
                self._publish_weights(unique_state_dict(self.objective.model), [checkpoint], found.scores)
            self._prune()
        self.world.barrier()
        return loss

    def save(self, state: TrainState) -> None:
        """Save a checkpoint of a training that is interrupted here: it is not tried, and counts for nothing else.

        Before the first validation its weights are those that translate, as there are no others.
        """
        if self.world.is_main_process:
            checkpoint = self._save(state)
            if not state.last_validated_update:
                self._publish_weights(unique_state_dict(self.objective.model), [checkpoint], {})
                self.reporter.log_session(
                    f"there was no validation yet: until there is one, translations are by update {state.update:,},"
                    " whatever its quality"
                )
            self._prune()
        self.world.barrier()

    def recover(self, state: TrainState) -> None:
        """Do what a kill may have left undone after the checkpoint that training resumes from was saved.

        Checkpoints are ranked anew where the metric, the dev set or how it is measured have changed since.
        """
        metrics, metric = self.validator.metrics, self.metric
        for line in [metrics.note, *metrics.warnings([] if metric == "loss" else [metric])]:
            if line:
                self.reporter.log_session(line)
        now = metric, self.validator.digest
        is_changed = (state.metric, state.validation_digest) != now
        if is_changed:
            before, (state.metric, state.validation_digest) = state.metric, now
            self._rank_anew(state, before)
        if not self.world.is_main_process:
            return
        best = self._best(state)
        if best and (is_changed or not self.run.weights_cover_checkpoint(best[0].folder.name, metric)):
            weights = load_tensors(best[0].model_path, digest=best[0].digests[WEIGHTS_FILE])
            self._publish_weights(weights, best, state.best_value)
        for half in self.run.folder.glob("*.partial"):
            half.unlink()
        self._prune()

    def finalize(self, state: TrainState) -> tuple[str, dict[str, float]]:
        """At the end of training: translate with the mean of the kept checkpoints where the config says so.

        Returns the origin of the weights that translate, and their scores.
        """
        how = self.config.checkpoints
        if how.average == "none":
            return f"update {state.best_update:,}", state.best_value
        every = validated_checkpoints(self.run.folder)
        chosen = self._best_kept() if how.average == "best" else every[-how.keep_last :]
        weights = average_weights(chosen)
        copy_weights(self.objective.model, weights, self.run.weights_path)
        scores = self.validator.validate(self.objective).scores
        origin = f"the mean of {len(chosen)} checkpoints"
        self.reporter.log(f"{origin}: {describe(scores)}")
        if self.world.is_main_process:
            self._publish_weights(weights, chosen, scores)
        self.world.barrier()
        return origin, scores

    def _rank_anew(self, state: TrainState, before: str) -> None:
        """Choose the best of the kept checkpoints that today's metric was measured of; patience starts anew."""
        every = validated_checkpoints(self.run.folder)
        comparable = comparable_checkpoints(every, self.metric, state.validation_digest)
        chosen = self.world.all_gather(best_checkpoints(comparable, 1, self.metric))[0]
        state.best_value, state.best_update = (
            (chosen[0].train_state.scores, chosen[0].train_state.update) if chosen else ({}, 0)
        )
        state.validations_since_best = state.validations_since_lr_drop = state.zero_bleu = 0
        if not every:
            return
        why = f"the metric is {self.metric} and was {before}"
        if before == self.metric:
            why = "the dev set, or the way that scores are computed, has changed"
        best = f"the best is update {state.best_update:,}" if chosen else "there is no best one yet"
        self.reporter.log_session(f"checkpoints are ranked anew ({why}), and patience starts anew: {best}")
        if others := [f"{c.train_state.update:,}" for c in every if c not in comparable]:
            self.reporter.log_session(
                f"warning: of update {', '.join(others)} there is no {self.metric} to compare with; not ranked"
            )

    def _save(self, state: TrainState) -> Checkpoint:
        model, lengths = self.objective.model, self.reporter.log_sizes()
        return save_checkpoint(self.run.folder, model, self.vocabularies, self.optimizer, state, lengths)

    def _prune(self) -> None:
        prune(self.run.folder, self._best_kept(), keep_last=self.config.checkpoints.keep_last)

    def _best_kept(self) -> list[Checkpoint]:
        every = validated_checkpoints(self.run.folder)
        comparable = comparable_checkpoints(every, self.metric, self.validator.digest)
        return best_checkpoints(comparable, max(1, self.config.checkpoints.keep_best), self.metric)

    def _best(self, state: TrainState) -> list[Checkpoint]:
        return [c for c in validated_checkpoints(self.run.folder) if c.train_state.update == state.best_update]

    def _publish_weights(
        self, weights: Mapping[str, Tensor], checkpoints: list[Checkpoint], scores: dict[str, float]
    ) -> None:
        names = [checkpoint.folder.name for checkpoint in checkpoints]
        origin = {"checkpoints": names, "metric": self.metric, "scores": scores}
        self.run.save_model(weights, self.vocabularies, origin)

    def _update_state(self, state: TrainState, scores: dict[str, float]) -> bool:
        """Rank a validation; whether it is the best, of equal ones the newest. Patience waits for a better one."""
        schedule, now = self.config.lr_schedule, rank(scores, self.metric)
        best = rank(state.best_value, self.metric) if state.best_value else None
        is_best, is_better = best is None or now >= best, best is None or now > best
        state.last_validated_update, state.scores = state.update, scores
        state.validations_since_best = 0 if is_better else state.validations_since_best + 1
        state.validations_since_lr_drop = 0 if is_better else state.validations_since_lr_drop + 1
        # Of two that are zero the better one is that with the lower loss.
        is_zero = self.metric == "bleu" and scores["bleu"] < ZERO and is_better
        state.zero_bleu = state.zero_bleu + 1 if is_zero else 0
        if is_best:
            state.best_value, state.best_update = scores, state.update
        if schedule.kind == "plateau" and state.validations_since_lr_drop >= schedule.patience:
            state.num_lr_drops, state.validations_since_lr_drop = state.num_lr_drops + 1, 0
        return is_best

    def _report(self, state: TrainState, found: ValidationResult, is_best: bool) -> None:
        numbers: dict[str, float | str] = {"epoch": round(state.epochs, 3), **found.scores}
        if found.signature is not None:
            numbers["signature"] = found.signature
        self.reporter.log_metrics("validation", state.update, {**numbers, "seconds": state.seconds})
        self.reporter.log(
            f"validation at update {state.update}: {describe(found.scores)}"
            f"{' (greedy)' if found.signature else ''}{'  best so far' if is_best else ''}"
        )
        if state.zero_bleu == TWICE:
            self.reporter.log(
                "warning: BLEU is 0.00 in two validations while the loss falls, so it tells nothing of which is best."
                " If translations in samples.txt share words with their references, set `evaluation.tokenize` to how"
                " words are found in this language, or `training.validation.metric` to chrf or loss; if they do not,"
                " train longer"
            )
        if found.translations:
            self.reporter.log_samples(state.update, self.validator.samples(found))
