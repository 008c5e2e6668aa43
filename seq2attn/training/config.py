"""The training part of a config."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from seq2attn.config.base import Config
from seq2attn.config.duration import Amount, Duration
from seq2attn.training.guided import GuidedConfig
from seq2attn.training.optimizers import AdamConfig, OptimizerConfig
from seq2attn.training.schedules import InverseSquareRootConfig, ScheduleConfig

Metric = Literal["bleu", "loss", "perplexity"]


class BatchConfig(Config):
    """How much is learnt from at once."""

    tokens: PositiveInt = 4096
    """Rows times the longer side of a batch, padding counted, on each device."""
    accumulate: PositiveInt = 1
    """Batches whose gradients make one update."""


class ValidationConfig(Config):
    """When and how the model is tried on the dev set; BLEU is of greedy translations."""

    every: Duration = Amount(1, "epochs")
    metric: Metric = "bleu"
    """What is better is decided by this: which checkpoints are best, and when to stop."""
    patience: PositiveInt | None = None
    """Stop when so many validations in a row were no better than the best."""
    samples: NonNegativeInt = 4
    """How many dev sentences are shown with their translations."""


class CheckpointConfig(Config):
    """Which checkpoints are kept, and which weights translate."""

    keep_last: PositiveInt = 2
    keep_best: NonNegativeInt = 1
    average: Literal["none", "last", "best"] = "none"
    """At the end, translate with the mean of the kept last or best checkpoints instead of the best one."""


class TrainingConfig(Config):
    """How a model is trained."""

    until: tuple[Duration, ...] = Field((Amount(20, "epochs"),), min_length=1)
    """Durations; training ends with the first that is over."""
    seed: NonNegativeInt = 1
    batch: BatchConfig = BatchConfig()
    optimizer: OptimizerConfig = AdamConfig(kind="adam")
    schedule: ScheduleConfig = InverseSquareRootConfig(kind="inverse-sqrt")
    label_smoothing: float = Field(0.1, ge=0, lt=1)
    guided: GuidedConfig | None = None
    """Also teach attention where to look, by the word alignments of `data.train`; none: do not."""
    clip: PositiveFloat | None = 1.0
    """The greatest norm of the gradient of an update."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """auto: bfloat16 where the card has it, else float32."""
    validation: ValidationConfig = ValidationConfig()
    checkpoints: CheckpointConfig = CheckpointConfig()
    report_every: PositiveInt = 50
    """Updates between two lines of metrics."""
    tensorboard: bool = False
    """Also write TensorBoard's files (needs the extra `tensorboard`)."""
