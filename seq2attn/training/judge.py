"""What comes of a validation: what is reported of it, and which weights are kept."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from seq2attn.data.prepare import Prepared
from seq2attn.run import Run
from seq2attn.training.checkpoint import (
    TrainState,
    average,
    best_checkpoints,
    list_checkpoints,
    prune,
    save_checkpoint,
)
from seq2attn.training.config import TrainingConfig
from seq2attn.training.distributed import World
from seq2attn.training.objective import Objective
from seq2attn.training.report import Reporter
from seq2attn.training.validation import Validation, better, samples, validate
from seq2attn.weights import own_weights, put_weights


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

    def validate(self, state: TrainState) -> None:
        """Try the model, write into `state` how it compares, save a checkpoint, and keep the best weights."""
        started = time.monotonic()
        found = self._try()
        (seconds,) = self.world.sum((time.monotonic() - started) / self.world.size)
        state.seconds += seconds
        value = found.value(self.metric)
        is_best = better(self.metric, value, state.best)
        self._remember(state, value, is_best)
        self._tell(state, found, is_best)
        if self.world.leads:
            model, keep = self.objective.model, self.config.checkpoints
            checkpoint = save_checkpoint(
                self.run.folder, model, self.vocabularies, self.optimizer, state, value
            )
            if is_best:
                self._translate_with(own_weights(model), [checkpoint.folder.name], value)
            prune(
                self.run.folder,
                keep_last=keep.keep_last,
                keep_best=max(1, keep.keep_best),
                higher_is_better=self.higher_is_better,
            )
        self.world.wait()

    def finish(self) -> None:
        """At the end of training: translate with the mean of the kept checkpoints where the config says so."""
        how = self.config.checkpoints
        if how.average == "none":
            return
        every = list_checkpoints(self.run.folder)
        best = best_checkpoints(every, max(1, how.keep_best), higher_is_better=self.higher_is_better)
        chosen = best if how.average == "best" else every[-how.keep_last :]
        weights = average(chosen)
        put_weights(self.objective.model, weights, self.run.weights)
        found = self._try()
        self.reporter.say(
            f"the mean of {len(chosen)} checkpoints: ppl {found.perplexity:.2f}  BLEU {found.bleu:.2f} (greedy)"
        )
        if self.world.leads:
            names = [checkpoint.folder.name for checkpoint in chosen]
            self._translate_with(weights, names, found.value(self.metric))
        self.world.wait()

    def _try(self) -> Validation:
        return validate(self.objective, self.prepared, self.config.batch.most(), self.world)

    def _translate_with(self, weights: Mapping[str, Tensor], checkpoints: list[str], value: float) -> None:
        origin: dict[str, Any] = {"checkpoints": checkpoints, self.metric: value}
        self.run.save_model(weights, self.vocabularies, origin)

    def _remember(self, state: TrainState, value: float, is_best: bool) -> None:
        schedule = self.config.schedule
        state.stale = 0 if is_best else state.stale + 1
        state.waited = 0 if is_best else state.waited + 1
        if is_best:
            state.best = value
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
