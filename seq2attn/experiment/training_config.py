"""The `training` section of a config."""

import re
from collections.abc import Iterator
from typing import Annotated, Literal, Self

import torch
from pydantic import AfterValidator, Field, NonNegativeInt, PositiveFloat, PositiveInt

from seq2attn.config.base import Config, FieldError, RunPath
from seq2attn.config.duration import Duration, DurationField, OneOrMore, ReportField, TimeField
from seq2attn.losses.guided_alignment import GuidedAlignmentConfig
from seq2attn.losses.scheduled_sampling import ScheduledSamplingConfig
from seq2attn.optim.lr_schedules import InverseSquareRootScheduleConfig, LRScheduleConfig
from seq2attn.optim.optimizers import AdamConfig, OptimizerConfig
from seq2attn.search.search_config import MAX_BEAM_SIZE

Metric = Literal["bleu", "chrf", "exact", "loss"]
Precision = Literal["auto", "float32", "bfloat16"]
CPU_MICRO_BATCH_TOKENS: dict[Precision, int] = {"auto": 1408, "float32": 1408, "bfloat16": 4096}
"""Tokens of a micro-batch on a CPU: in float32 for less memory and padding (RNNs are faster with whole batches), in
bfloat16 the fastest number for Transformers with AMX."""


def _check_device(name: str) -> str:
    if not re.fullmatch(r"auto|cpu|cuda(:\d{1,3})?", name):
        raise ValueError("expected auto, cpu, cuda, or a CUDA device such as `cuda:1`")
    return name


Device = Annotated[str, AfterValidator(_check_device)]


class BatchConfig(Config):
    """The size of an update."""

    tokens: PositiveInt | Literal["auto", "fit"] = "auto"
    """Rows times the longer side of a batch, with padding, on each device; auto: 256 to 4096, by the corpus size;
    fit: as many as fit in the memory of the GPU and leave 150 updates per epoch, at least 1024."""
    micro_batch_tokens: PositiveInt | None = None
    """Tokens of a micro-batch, of sentences of similar lengths. A batch is several of them, drawn at random, whose
    gradients are summed: less memory, and a mixture of lengths. Default: the whole batch on a GPU; on a CPU at most
    1408 in float32, for less memory and padding, and 4096 in bfloat16."""
    gradient_accumulation: PositiveInt = 1
    """Number of batches per update."""
    padding_free: bool = False
    """Concatenate the sentences of a batch in one row, without padding; for Transformers. Meant for GPUs, which have
    attention kernels for it; on a CPU attention pads them."""

    def check_fields(self) -> Iterator[FieldError]:
        """The error of micro-batches that are larger than a batch."""
        if isinstance(self.tokens, int) and self.micro_batch_tokens and self.micro_batch_tokens > self.tokens:
            yield FieldError("micro_batch_tokens", f"more than a batch, which has {self.tokens} tokens")

    def num_micro_batches(self, device: torch.device, precision: Precision) -> int:
        """Number of micro-batches of a batch."""
        tokens = self.require_tokens()
        default = min(tokens, CPU_MICRO_BATCH_TOKENS[precision]) if device.type == "cpu" else tokens
        return -(-tokens // (self.micro_batch_tokens or default))

    def require_tokens(self) -> int:
        """The tokens of a batch, after `auto` and `fit` are resolved."""
        assert isinstance(self.tokens, int), "replaced by a number before training"
        return self.tokens


class MinimumRiskConfig(Config):
    """Minimum risk training: the expected cost of translations that the model samples (Shen et al. 2016).

    It replaces the cross-entropy, for a model that is already trained (`training.init_from`). An update searches for
    the samples, and then decodes `num_samples` times as many sentences.
    """

    num_samples: int = Field(20, ge=1, le=MAX_BEAM_SIZE)
    """Samples for each source; equal ones count once, and the reference is a candidate too. 100 in the paper."""
    alpha: PositiveFloat = 0.005
    """Exponent of the probabilities of the candidates, before they are made to sum to 1: smaller is more even."""
    metric: Literal["bleu", "chrf"] = "bleu"
    """The cost of a candidate is 1 minus its sentence BLEU or chrF by sacreBLEU, of text, as in `evaluation`."""


class ValidationConfig(Config):
    """Validation on the dev set: loss, and BLEU, chrF and exact match of translations as by `evaluate --greedy`."""

    every: DurationField | Literal["auto"] = "auto"
    """Time between two validations; auto: an epoch. Where a time ends the training: an eighth of it, and up to a third
    if validations would take more than a tenth of the time."""
    metric: Metric = "bleu"
    """Metric for the best checkpoints and for early stopping. Ties are broken by the loss, and BLEU below 5
    counts as 5. With `loss` only the samples are translated, and BLEU, chrF and exact match are not reported."""
    target: float | None = None
    """Training ends when `metric` reaches this at a validation, such as a BLEU of 38; none: it does not."""
    patience: PositiveInt | None = None
    """Early stopping after this number of validations in a row without improvement; none: no early stopping."""
    samples: NonNegativeInt = 4
    """Number of dev sentences in samples.txt, with their translations."""
    max_sentences: PositiveInt | None = None
    """Number of sentences for validation, spread evenly over the dev set and always the same; none: all."""

    def require_every(self) -> Duration:
        """The time between two validations, after `auto` is resolved."""
        assert self.every != "auto", "replaced by a duration before training"
        return self.every


class CheckpointConfig(Config):
    """Checkpoints to keep, and the weights for translation."""

    keep_last: PositiveInt = 2
    """Number of newest checkpoints to keep; at least two are kept, in case one is corrupt."""
    keep_best: NonNegativeInt = 3
    """Number of best checkpoints to keep, for `average --best`; without optimizer state unless among the newest two.
    The best one is always kept."""
    average: Literal["none", "last", "best"] = "none"
    """Weights for translation after training: the best checkpoint, or the mean of the last or best ones."""


class InitFromConfig(Config):
    """Another run, with whose weights a training begins; its text and vocabularies may differ."""

    run_dir: RunPath
    """The run, relative to the working directory, whose weights for translation are the initial ones. Vocabulary
    entries are matched by their text; a new entry gets the mean of the entries that it is made of."""
    exclude: tuple[str, ...] = ()
    """Parts that keep their usual initial values, by the names that `train --dry-run -v` prints."""


class LoRAConfig(Config):
    """Low-rank updates of linear layers (LoRA, Hu et al. 2022); all other weights are frozen."""

    rank: PositiveInt = 8
    """Rank of each update."""
    alpha: PositiveFloat = 16.0
    """An update is multiplied by `alpha / rank`."""
    parts: tuple[str, ...] = ("encoder", "decoder")
    """Parts whose linear layers get updates, by the names that `train --dry-run -v` prints. Not among these layers are
    PyTorch's GRU and LSTM, in encoders and in decoders whose RNN does not depend on attention, and an output projection
    with tied weights."""


class TrainingConfig(Config):
    """Duration, batches, optimizer, validation and checkpoints of a training."""

    max_duration: Annotated[tuple[DurationField, ...], OneOrMore] = Field((Duration(20, "epochs"),), min_length=1)
    """A duration, or a list of durations, of which the first to be reached ends the training."""
    time_limit: TimeField | None = None
    """Time after which this process saves a checkpoint and exits with code 75, like `175 minutes`: a few minutes less
    than the limit of a batch queue. `train --resume-if-exists` resumes it."""
    seed: int = Field(1, ge=0, lt=2**63)
    """Seed of initialization, dropout and data order."""
    init_from: InitFromConfig | None = None
    """Begin with the weights of another run; none: with random or pretrained weights."""
    frozen: tuple[str, ...] = ()
    """Parts that are not trained, by the names that `train --dry-run -v` prints, such as `encoder`, `encoder.layers.0`
    or `target_embedding.embedding.weight`."""
    lora: LoRAConfig | None = None
    """Train low-rank updates alone; none: all weights. They are merged into the weights for translation."""
    batch: BatchConfig = BatchConfig()
    optimizer: OptimizerConfig = AdamConfig(kind="adam")
    """The optimizer and its learning rate."""
    lr_scales: dict[str, PositiveFloat] = Field({})
    """Share of the learning rate for some parts, by the names that `train --dry-run -v` prints: `{encoder: 0.1}`. Of
    nested parts the innermost applies."""
    lr_schedule: LRScheduleConfig = InverseSquareRootScheduleConfig()
    """The factor of the learning rate at each update."""
    ema_decay: float | None = Field(None, gt=0, lt=1)
    """Decay of an exponential moving average of the weights, such as 0.999, which is validated, saved and translated
    with; none: the weights themselves."""
    label_smoothing: float = Field(0.1, ge=0, lt=1)
    """Probability mass that is spread over the vocabulary (Szegedy et al. 2016); 0: none."""
    r_drop: PositiveFloat | None = None
    """Weight of R-Drop (Liang et al. 2021), the divergence between two predictions with different dropout, which takes
    two forward passes; 5 in the paper; none: off."""
    scheduled_sampling: ScheduledSamplingConfig | None = None
    """Predictions of the model as inputs of the decoder; none: always the reference."""
    minimum_risk: MinimumRiskConfig | None = None
    """The expected cost of sampled translations as the loss, without label smoothing; none: cross-entropy."""
    guided_alignment: GuidedAlignmentConfig | None = None
    """Training of an attention head on the word alignments of `data.train`; none: off."""
    max_grad_norm: PositiveFloat | None = 1.0
    """Maximum norm of the gradient, for clipping; none: no clipping."""
    max_consecutive_skips: PositiveInt = 5
    """Updates with a loss or gradient that is not finite are skipped; after this number in a row training fails."""
    device: Device = "auto"
    """auto: a CUDA device if there is one, else the CPU; or cpu, cuda, `cuda:1`. Under torchrun each process uses a
    separate CUDA device, so give no number."""
    precision: Precision = "auto"
    """auto: bfloat16 where the GPU supports it, else float32; products of float32 are rounded to TF32 on a GPU.
    float32: exact products."""
    deterministic: bool = False
    """Use only deterministic kernels on a GPU, some of which are slower."""
    compile: bool = False
    """Compile the model with `torch.compile` before the first update, which takes a minute or two. Meant for
    Transformers on a GPU: an RNN is compiled again for each length, and a CPU gains nothing."""
    validation: ValidationConfig = ValidationConfig()
    checkpoints: CheckpointConfig = CheckpointConfig()
    report_every: ReportField = Duration(30, "seconds")
    """Time or updates between two reports in the log and metrics.jsonl; of a time the first is after half of it."""
    tensorboard: bool = False
    """Write TensorBoard files (needs the extra `tensorboard`)."""

    def check_fields(self) -> Iterator[FieldError]:
        """Errors of settings that cannot be combined."""
        if self.lora is not None and self.frozen:
            yield FieldError("frozen", "`lora` freezes all weights but its own: leave this out")
        if self.minimum_risk is not None:
            others = {
                "batch.padding_free": self.batch.padding_free,
                "r_drop": self.r_drop,
                "scheduled_sampling": self.scheduled_sampling,
                "guided_alignment": self.guided_alignment,
                "compile": self.compile,
            }
            message = "cannot be combined with `minimum_risk`, which has a loss of its own: leave this out"
            yield from (FieldError(key, message) for key, value in others.items() if value)

    def with_batch_tokens(self, tokens: int) -> Self:
        """The section with a number for `auto` or `fit`, no less than a micro-batch has."""
        return self.with_value("batch.tokens", max(tokens, self.batch.micro_batch_tokens or 0))
