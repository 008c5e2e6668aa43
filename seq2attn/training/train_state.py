"""The state of a training, as each checkpoint keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class TrainState:
    """All that a resumed run needs beside weights and optimiser. Randomness is a function of seed and update."""

    update: int = 0
    epoch: int = 0
    updates_in_epoch: int = 0  # updates of the running epoch that are made
    updates_per_epoch: int = 1  # of the running epoch
    seconds: float = 0.0  # of training, over all sittings
    target_tokens: int = 0  # target words learnt from
    last_validated_update: int = 0  # the last update after which there was a validation
    scores: dict[str, float] = field(default_factory=dict)  # of this validation: loss, BLEU ...
    texts: dict[str, dict[str, str]] = field(default_factory=dict)  # digests of the files of train and dev
    validation_digest: str = ""  # of sentences, references and settings that the scores are of
    metric: str = ""  # by which validations were ranked
    best_value: dict[str, float] = field(default_factory=dict)  # scores of the best validation
    best_update: int = 0
    validations_since_best: int = 0  # validations since the best
    validations_since_lr_drop: int = 0  # validations since the best or the last plateau
    zero_bleu: int = 0  # validations in a row in which BLEU was 0.00 while the loss fell
    num_lr_drops: int = 0
    reinforce_baseline: float | None = (
        None  # a target word's log-probability of late, where hard attention learns by drawing
    )
    num_skipped: int = 0  # updates whose loss or gradient was not finite
    consecutive_skips: int = 0  # of these, the last
    unreported_metrics: list[dict[str, float]] = field(
        default_factory=list
    )  # what each process has not reported yet

    @property
    def epochs(self) -> float:
        """Epochs that are over, the running one in part."""
        return self.epoch + self.updates_in_epoch / self.updates_per_epoch
