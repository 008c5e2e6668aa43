"""The training part of a config."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

import torch
from pydantic import AfterValidator, Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from seq2attn.config.base import Config, FieldError, FieldErrors
from seq2attn.config.duration import Duration, DurationField, OneOrMore, TimeField
from seq2attn.training.guided_alignment import GuidedAlignmentConfig
from seq2attn.training.lr_schedules import InverseSquareRootScheduleConfig, LRScheduleConfig
from seq2attn.training.optimizers import AdamConfig, OptimizerConfig

Metric = Literal["bleu", "chrf", "exact", "loss"]
CPU_MICRO_BATCH_TOKENS = 1408
"""Tokens that a CPU is given at once, for less memory and padding. A recurrence is faster with whole batches."""


def _is_device(name: str) -> str:
    if not re.fullmatch(r"auto|cpu|cuda(:\d{1,3})?", name):
        raise ValueError("expected auto, cpu, cuda, or a CUDA device such as `cuda:1`")
    return name


Device = Annotated[str, AfterValidator(_is_device)]


class BatchConfig(Config):
    """The size of an update."""

    tokens: PositiveInt | Literal["auto", "fit"] = "auto"
    """Rows times the longer side of a batch, padding counted, on each device; auto: 256 to 4096, by the size of the
    corpus; fit: what the GPU's memory holds, with 150 updates per epoch at least."""
    micro_batch_tokens: PositiveInt | None = None
    """How many of these go through the model together; the gradients of such parts add up to those of the batch.
    Default: on a GPU all of them, on a CPU about 1400, with less memory and padding."""
    gradient_accumulation: PositiveInt = 1
    """Batches whose gradients make one update."""
    padding_free: bool = False
    """Lay the sentences of a batch one after the other in one row, without padding, for a Transformer to read. It is
    meant for GPUs, which have attention kernels for it; on a CPU attention pads them."""

    @model_validator(mode="after")
    def _is_a_part(self) -> Self:
        if (
            isinstance(self.tokens, int)
            and self.micro_batch_tokens is not None
            and self.micro_batch_tokens > self.tokens
        ):
            raise FieldErrors([FieldError("micro_batch_tokens", f"more than a batch, which has {self.tokens} tokens")])
        return self

    def micro_batch_size(self, device: torch.device) -> int:
        """How many tokens go through the model together, when it is known how many a batch has."""
        return self.require_tokens() // self.num_micro_batches(device)

    def num_micro_batches(self, device: torch.device) -> int:
        """In how many equal parts a batch goes through the model."""
        most = self.require_tokens()
        usual = min(most, CPU_MICRO_BATCH_TOKENS) if device.type == "cpu" else most
        return -(-most // (self.micro_batch_tokens or usual))

    def require_tokens(self) -> int:
        """The tokens of a batch, when they are known."""
        assert isinstance(self.tokens, int), "replaced by a number before training"
        return self.tokens


class ValidationConfig(Config):
    """When and how the model is tried on the dev set; BLEU, chrF and exact match are of greedy translations."""

    every: DurationField = Duration(1, "epochs")
    """Time between two validations."""
    metric: Metric = "bleu"
    """Decides which checkpoints are best, and when to stop; of equal ones the loss does. With `loss` only the samples
    are translated, and BLEU, chrF and exact match are not reported."""
    patience: PositiveInt | None = None
    """Stop when so many validations in a row were no better than the best."""
    samples: NonNegativeInt = 4
    """How many dev sentences are shown with their translations."""
    max_sentences: PositiveInt | None = None
    """Validate on so many sentences, spread evenly over the dev set and always the same; none: on all."""


class CheckpointConfig(Config):
    """Which checkpoints are kept, and which weights translate."""

    keep_last: PositiveInt = 2
    """At least two are there, so that one is left should the other be corrupt."""
    keep_best: NonNegativeInt = 3
    """The best ones; those that are not among the newest two are weights alone. `average --best` takes their mean."""
    average: Literal["none", "last", "best"] = "none"
    """At the end, translate with the mean of the kept last or best checkpoints instead of the best one."""


class TrainingConfig(Config):
    """How a model is trained."""

    max_duration: Annotated[tuple[DurationField, ...], OneOrMore] = Field((Duration(20, "epochs"),), min_length=1)
    """A duration, or a list of durations; training ends with the first that is over."""
    time_limit: TimeField | None = None
    """Time after which this process saves a checkpoint and exits with 75, like `175 minutes`: a few minutes less than
    the limit of a batch queue. `train --resume-if-exists` resumes it."""
    seed: int = Field(1, ge=0, lt=2**63)
    """Seed of initialization, dropout and the order of the data."""
    batch: BatchConfig = BatchConfig()
    optimizer: OptimizerConfig = AdamConfig(kind="adam")
    """The optimizer and its learning rate."""
    lr_schedule: LRScheduleConfig = InverseSquareRootScheduleConfig(kind="inverse-sqrt")
    """The factor of the learning rate at each update."""
    label_smoothing: float = Field(0.1, ge=0, lt=1)
    """Probability mass that is spread over the vocabulary (Szegedy et al. 2016); 0 turns it off."""
    guided_alignment: GuidedAlignmentConfig | None = None
    """Also teach attention where to look, by the word alignments of `data.train`; none: do not."""
    max_grad_norm: PositiveFloat | None = 1.0
    """The greatest norm of the gradient of an update."""
    max_consecutive_skips: PositiveInt = 5
    """An update whose loss or gradient is not finite is skipped; after so many in a row training ends with an error."""
    device: Device = "auto"
    """auto: a CUDA device where there is one, else the CPU; cpu, cuda, or one of several, such as `cuda:1`. Under
    torchrun each process takes a CUDA device of its own, and the number is left out."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """auto: bfloat16 where the GPU supports it, else float32; products of float32 are rounded to TF32 on a GPU.
    float32: exact products."""
    deterministic: bool = False
    """On a GPU, use only deterministic kernels, as on a CPU: some are slower."""
    compile: bool = False
    """Have PyTorch compile the model before the first update, which takes a minute or two, and is logged. Meant for
    Transformers on a GPU: a recurrence is compiled again for each length, and a CPU gains nothing."""
    validation: ValidationConfig = ValidationConfig()
    checkpoints: CheckpointConfig = CheckpointConfig()
    report_every: PositiveInt = 50
    """Updates between two lines of metrics."""
    tensorboard: bool = False
    """Also write TensorBoard's files (needs the extra `tensorboard`)."""
