"""What comes of a validation: what is reported of it, and which weights are kept."""

from __future__ import annotations

import time
from collections.abc import Mapping

import torch
from torch import Tensor

from seq2attn.data.prepare import Prepared
from seq2attn.run import Run
from seq2attn.training.checkpoint import MODEL, Checkpoint, TrainState, average, save_checkpoint
from seq2attn.training.config import TrainingConfig
from seq2attn.training.distributed import World
from seq2attn.training.kept import best_checkpoints, prune, validated_checkpoints
from seq2attn.training.objective import Objective
from seq2attn.training.report import Reporter
from seq2attn.training.soundness import is_usable
from seq2attn.training.validation import Validation, better, samples, validate
from seq2attn.weights import load_tensors, own_weights, put_weights


class Judge:
    """Tries the model on the dev set, and keeps checkpoints and the weights that translate."""

    def __init__(
        self,
        config: TrainingConfig,
        run: Run,
        prepared: Prepared,
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        world: World,
        reporter: Reporter,
    ) -> None:
        self.config, self.run, self.prepared = config, run, prepared
        self.objective, self.optimizer = objective, optimizer
        self.world, self.reporter = world, reporter
        self.vocabularies = prepared.source.vocabulary, prepared.target.vocabulary
        self.metric = config.validation.metric
        self.higher_is_better = self.metric == "bleu"

    def validate(self, state: TrainState) -> float:
        """Try the model, write into `state` how it compares, save a checkpoint, and keep the best weights.

        Returns the loss. Nothing is written or kept if that is no number to be used.
        """
        started = time.monotonic()
        found = self._try()
        if not is_usable(found.loss):
            return found.loss
        (seconds,) = self.world.sum((time.monotonic() - started) / self.world.size)
        state.seconds += seconds
        value = found.value(self.metric)
        is_best = better(self.metric, value, state.best)
        self._remember(state, value, is_best)
        self._tell(state, found, is_best)
        if self.world.leads:
            checkpoint = self._save(state, value)
            if is_best:
                self._translate_with(own_weights(self.objective.model), [checkpoint], value)
            self._prune()
        self.world.wait()
        return found.loss

    def save(self, state: TrainState) -> None:
        """Save a checkpoint of a training that is interrupted here: it is not tried, and counts for nothing else."""
        if self.world.leads:
            self._save(state, None)
            self._prune()
        self.world.wait()

    def settle(self, state: TrainState) -> None:
        """Do what a kill may have left undone after the checkpoint that training goes on from was saved."""
        if not self.world.leads:
            return
        best = self._best(state)
        if best and not self.run.has_weights_since(best[0].folder.name):
            self._translate_again(best, state)
        for half in self.run.folder.glob("*.partial"):
            half.unlink()
        self._prune()

    def finish(self) -> None:
        """At the end of training: translate with the mean of the kept checkpoints where the config says so."""
        how = self.config.checkpoints
        if how.average == "none":
            return
        every = validated_checkpoints(self.run.folder)
        best = best_checkpoints(every, max(1, how.keep_best), higher_is_better=self.higher_is_better)
        chosen = best if how.average == "best" else every[-how.keep_last :]
        weights = average(chosen)
        put_weights(self.objective.model, weights, self.run.weights)
        found = self._try()
        self.reporter.say(
            f"the mean of {len(chosen)} checkpoints: ppl {found.perplexity:.2f}  BLEU {found.bleu:.2f} (greedy)"
        )
        if self.world.leads:
            self._translate_with(weights, chosen, found.value(self.metric))
        self.world.wait()

    def _try(self) -> Validation:
        return validate(self.objective, self.prepared, self.config.batch.most(), self.world)

    def _save(self, state: TrainState, value: float | None) -> Checkpoint:
        model, lengths = self.objective.model, self.reporter.lengths()
        return save_checkpoint(
            self.run.folder, model, self.vocabularies, self.optimizer, state, value, lengths
        )

    def _prune(self) -> None:
        keep = self.config.checkpoints
        prune(
            self.run.folder,
            keep_last=keep.keep_last,
            keep_best=max(1, keep.keep_best),
            higher_is_better=self.higher_is_better,
        )

    def _best(self, state: TrainState) -> list[Checkpoint]:
        return [c for c in validated_checkpoints(self.run.folder) if c.state.update == state.best_update]

    def _translate_again(self, best: list[Checkpoint], state: TrainState) -> None:
        weights = load_tensors(best[0].model, digest=best[0].digests[MODEL])
        self._translate_with(weights, best, state.best)

    def _translate_with(
        self, weights: Mapping[str, Tensor], checkpoints: list[Checkpoint], value: float | None
    ) -> None:
        names = [checkpoint.folder.name for checkpoint in checkpoints]
        self.run.save_model(weights, self.vocabularies, {"checkpoints": names, self.metric: value})

    def _remember(self, state: TrainState, value: float, is_best: bool) -> None:
        schedule = self.config.schedule
        state.validated = state.update
        state.stale = 0 if is_best else state.stale + 1
        state.waited = 0 if is_best else state.waited + 1
        if is_best:
            state.best, state.best_update = value, state.update
        if schedule.kind == "plateau" and state.waited >= schedule.patience:
            state.plateaus, state.waited = state.plateaus + 1, 0

    def _tell(self, state: TrainState, found: Validation, is_best: bool) -> None:
        numbers: dict[str, float | str] = {
            "epoch": round(state.epochs, 3),
            "loss": found.loss,
            "perplexity": found.perplexity,
            "bleu": found.bleu,
            "signature": found.signature,
            "seconds": state.seconds,
        }
        self.reporter.measure("validation", state.update, numbers)
        self.reporter.say(
            f"validation at update {state.update}: loss {found.loss:.3f}  ppl {found.perplexity:.2f}"
            f"  BLEU {found.bleu:.2f} (greedy){'  best so far' if is_best else ''}"
        )
        if self.config.validation.samples:
            shown = samples(self.prepared, found, self.config.validation.samples)
            self.reporter.sample(state.update, shown)
