"""The checkpoints of a training and its weights for translation: saved, published, pruned and averaged."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2attn.experiment.training_config import TrainingConfig
from seq2attn.io.files import remove_temporary
from seq2attn.io.terminal import plural
from seq2attn.io.weights import copy_weights, unique_state_dict
from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.models.build import Vocabularies
from seq2attn.nn.lora import merge_adapters, remove_adapters
from seq2attn.optim.ema import WeightAverage
from seq2attn.training.checkpoints.averaging import average_weights, load_merged, newest_checkpoints
from seq2attn.training.checkpoints.checkpoint import Checkpoint, save_checkpoint
from seq2attn.training.checkpoints.retention import prune, rank, rank_checkpoints, validated_checkpoints
from seq2attn.training.metrics_logger import Session
from seq2attn.training.train_state import TrainState
from seq2attn.training.validation import Validator, format_scores


@dataclass(frozen=True)
class CheckpointKeeper:
    """Keeps checkpoints and the weights for translation, which the main process writes; the others wait for it."""

    training: TrainingConfig
    vocabularies: Vocabularies
    loss_module: TrainingLoss
    optimizer: torch.optim.Optimizer
    average: WeightAverage | None
    session: Session

    def averaged(self) -> AbstractContextManager[None]:
        """The model with the weights for translation: the averages, if there are any."""
        return nullcontext() if self.average is None else self.average.applied()

    def recover(self, state: TrainState, *, is_changed: bool) -> None:
        """Complete what a kill interrupted after the checkpoint that training resumes from.

        `is_changed`: the best checkpoint is that of another metric, or of other settings of scores, than before.
        """
        run, metric = self.session.run, self.training.validation.metric
        if self.average is not None:
            self.average.swap()  # a checkpoint has the averages in the place of the weights
        if self.session.distributed.is_main_process:
            best = [c for c in validated_checkpoints(run.folder) if c.train_state.update == state.best_update]
            if best and (is_changed or not run.weights_cover_checkpoint(best[0].folder.name, metric)):
                self._publish(load_merged(best[0]), best, state.best_value)
            remove_temporary(run.folder, keep_folders=True)  # an `export` may be at work in them
            self._prune(state)
        self.session.distributed.barrier()  # the others may read the weights next

    def save(self, state: TrainState, scores: dict[str, float] | None) -> None:
        """Save a checkpoint, within `averaged`; with `scores`, its weights become those for translation."""
        if self.session.distributed.is_main_process:
            model, folder, log_sizes = self.loss_module.model, self.session.run.folder, self.session.logger.log_sizes()
            checkpoint = save_checkpoint(folder, model, self.vocabularies, self.optimizer, state, log_sizes)
            if scores is not None:
                self._publish(merge_adapters(unique_state_dict(model)), [checkpoint], scores)
            self._prune(state)
        self.session.distributed.barrier()

    def save_interrupted(self, state: TrainState) -> None:
        """Save a checkpoint at an interruption, without validation.

        Before the first validation its weights are used for translation, as there are no others.
        """
        is_unvalidated = not state.last_validated_update
        with self.averaged():
            self.save(state, {} if is_unvalidated else None)
        if is_unvalidated:
            self.session.logger.log_session(
                f"no validation yet: until there is one, the weights for translation are those of update"
                f" {state.update:,}, of unknown quality"
            )

    def finalize(self, state: TrainState, validator: Validator) -> str:
        """Average checkpoints at the end of training, if configured and not worse than the best of them.

        Returns the origin of the weights for translation, with their scores if these are known.
        """
        config, run, log = self.training.checkpoints, self.session.run, self.session.logger.log
        if config.average == "none":
            names = run.weights_origin()["checkpoints"]
            if len(names) > 1:
                return f"the mean of {len(names)} checkpoints by `seq2attn average`"
            known = f" ({format_scores(state.best_value)})" if int(names[0]) == state.best_update else ""
            return f"update {int(names[0]):,}{known}"
        is_last, metric = config.average == "last", self.training.validation.metric
        chosen = newest_checkpoints(run, config.keep_last) if is_last else self._best(state)
        if is_last and len(chosen) < min(config.keep_last, len(validated_checkpoints(run.folder))):
            log("warning: the mean is of the checkpoints since the last one that was removed")
        weights = average_weights(chosen)
        remove_adapters(self.loss_module.model)
        copy_weights(self.loss_module.model, weights, run.weights_path)
        scores = validator.validate(self.loss_module).scores
        origin = f"the mean of {plural(len(chosen), 'checkpoint')} ({format_scores(scores)})"
        more = {"average": config.average}
        if rank(scores, metric) < rank(state.best_value, metric):
            best = f"update {state.best_update:,} ({format_scores(state.best_value)})"
            log(f"{origin} is worse than {best}, whose weights are kept")
            origin, more, chosen, scores = best, {}, self._best(state)[:1], state.best_value
        else:
            log(origin)
        if self.session.distributed.is_main_process:
            self._publish(weights if more else load_merged(chosen[0]), chosen, scores, **more)
        self.session.distributed.barrier()
        return origin

    def _prune(self, state: TrainState) -> None:
        prune(self.session.run.folder, self._best(state), keep_last=self.training.checkpoints.keep_last)

    def _best(self, state: TrainState) -> list[Checkpoint]:
        validated = validated_checkpoints(self.session.run.folder)
        ranked = rank_checkpoints(validated, self.training.validation.metric, state.validation_digest)
        return ranked[: max(1, self.training.checkpoints.keep_best)]

    def _publish(
        self, weights: Mapping[str, Tensor], checkpoints: list[Checkpoint], scores: dict[str, float], **more: str
    ) -> None:
        """Save the weights for translation, with their origin: checkpoints, their scores, and `more`."""
        names = [checkpoint.folder.name for checkpoint in checkpoints]
        origin = {"checkpoints": names, "metric": self.training.validation.metric, "scores": scores, **more}
        self.session.run.save_model(weights, self.vocabularies, origin)
