"""Speed of a training on this machine, measured with a new model that is thrown away."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice

import numpy as np
import torch
from torch import nn

from seq2attn.data.collate import MicroBatch, count_target_tokens, make_micro_batches
from seq2attn.data.prefetch import prefetch
from seq2attn.data.prepared_data import PreparedData
from seq2attn.errors import UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.models import build_model
from seq2attn.nn.device import is_oom_error
from seq2attn.nn.precision import autocast
from seq2attn.optim.optimizers import parameter_groups
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.initial_weights import freeze_parameters
from seq2attn.training.memory import MEMORY_HINT
from seq2attn.training.minimum_risk import build_loss
from seq2attn.training.plan import Speed
from seq2attn.training.resolve import UpdateBatches, plan_updates
from seq2attn.training.validation import Validator

MAX_PAIRS = 100_000
"""Number of training pairs, evenly spread, whose batches are tried."""
MIN_UPDATES, MAX_UPDATES = 3, 100
FIRST_SENTENCES = 32
"""Number of sentences of the first validation; each further one has four times as many, as they go faster together."""
IDLE_SHARE = 0.8
"""Share of the time that this thread gets of a core of an idle machine, at least."""


@dataclass(frozen=True)
class SpeedTrial:
    """Updates and validations of a model, which do not change its weights."""

    experiment: ExperimentConfig
    prepared: PreparedData
    distributed: DistributedContext
    loss_module: TrainingLoss
    wrapped: nn.Module  # the same, with the exchange of gradients
    optimizer: torch.optim.Optimizer

    def target_tokens_per_second(self, updates: list[UpdateBatches], seconds: float) -> float:
        """The speed of some updates after a first one; where they take long, each has one micro-batch."""
        is_packed, is_pinned = self.experiment.training.batch.padding_free, self.distributed.device.type != "cpu"
        make = partial(make_micro_batches, self.prepared.train.corpus, packed=is_packed, pinned=is_pinned)
        self._update(make(updates[0][:1]))  # which also allocates, and compiles
        start = self._clock()
        self._update(make(updates[0][:1]))
        if MIN_UPDATES * len(updates[0]) * (self._clock() - start) > seconds:
            updates = [update[:1] for update in updates]
        tokens, used, start = 0.0, 0.0, self._clock()
        for count, micro_batches in enumerate(prefetch(make, islice(cycle(updates), MAX_UPDATES)), start=1):
            tokens, used = tokens + self._update(micro_batches), self._clock() - start
            if count >= MIN_UPDATES and used > seconds:
                break
        return tokens / used

    def seconds_per_validation(self, seconds: float) -> float:
        """The time of a validation, from that of some sentences; translations get the mean length of references."""
        length = round(float(self.prepared.dev.lengths[:, 1].mean())) + 1
        limits = {"min_length": length, "max_length": length, "min_length_ratio": 0.0, "max_length_ratio": None}
        search, training = self.experiment.search, self.experiment.training
        search = search.model_copy(update={"lengths": search.lengths.model_copy(update=limits)})
        total, size = min(len(self.prepared.dev), training.validation.max_sentences or 2**31), FIRST_SENTENCES
        while True:
            validation = training.validation.model_copy(update={"max_sentences": min(size, total)})
            part = training.model_copy(update={"validation": validation})
            experiment = self.experiment.model_copy(update={"search": search, "training": part})
            validator, start = Validator(experiment, self.prepared, self.distributed), self._clock()
            validator.validate(self.loss_module)
            used = self._clock() - start
            if size >= total or 4 * used > seconds:
                return used * max(1.0, total / size)
            size *= 4

    def _update(self, micro_batches: list[MicroBatch]) -> float:
        """An update with a learning rate of 0. Returns the number of target tokens of all processes."""
        training, distributed = self.experiment.training, self.distributed
        (num_tokens,) = distributed.all_reduce_sum(count_target_tokens(micro_batches))
        for micro_batch in micro_batches:
            with distributed.exchange(self.wrapped, micro_batch is micro_batches[-1]):
                with autocast(training.precision, distributed.device):
                    loss = self.wrapped(micro_batch.batch.to(distributed.device), None, 1)
                (loss.loss * (distributed.size / num_tokens)).backward()
        nn.utils.clip_grad_norm_(self.loss_module.parameters(), training.max_grad_norm or math.inf)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return num_tokens

    def _clock(self) -> float:
        """Time in seconds once the device has done its work; the mean of all processes, so that they agree."""
        if self.distributed.device.type == "cuda":
            torch.cuda.synchronize(self.distributed.device)
        return self.distributed.all_reduce_sum(time.monotonic() / self.distributed.size)[0]


def build_untrained(
    experiment: ExperimentConfig, prepared: PreparedData, device: torch.device
) -> tuple[TrainingLoss, torch.optim.Optimizer]:
    """The loss of a model with random weights, and its optimizer, for a trial."""
    model = build_model(experiment.model, *map(len, prepared.tokenizers.vocabularies))
    freeze_parameters(model, experiment.training)
    optimizer = experiment.training.optimizer.build(parameter_groups(model.to(device), experiment.training.lr_scales))
    return build_loss(model, experiment, prepared), optimizer


def measure_speed(
    experiment: ExperimentConfig, prepared: PreparedData, distributed: DistributedContext, seconds: float
) -> Speed:
    """The speed of updates and validations with a model of random weights, measured in about `seconds`.

    All processes get the same numbers. `training.batch.tokens` has to be a number.

    Raises UserError if an update does not fit in memory.
    """
    corpus, rows = prepared.train.corpus, prepared.train.rows(0, 0)
    rows = rows[:: math.ceil(len(rows) / MAX_PAIRS)]
    planned = plan_updates(corpus.lengths[rows], experiment.training, distributed, epoch=0)
    tokens_per_update = float((corpus.lengths[rows, 1] + 1).sum()) / len(planned)
    order = np.random.default_rng(0).permutation(len(planned))[:MAX_UPDATES]
    updates = [[rows[places] for places in planned[number]] for number in order]
    loss_module, optimizer = build_untrained(experiment, prepared, distributed.device)
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    if experiment.training.compile:
        loss_module.model.compile(dynamic=True)
    wrapped = distributed.wrap_ddp(loss_module)
    trial = SpeedTrial(experiment, prepared, distributed, loss_module, wrapped, optimizer)
    start = time.monotonic(), time.thread_time()
    try:
        rate = trial.target_tokens_per_second(updates, seconds / 2)
        share = (time.thread_time() - start[1]) / (time.monotonic() - start[0])
        validation = trial.seconds_per_validation(seconds / 2)
    except (RuntimeError, MemoryError) as error:
        if not is_oom_error(error):
            raise
        raise UserError(f"an update or a validation does not fit in memory; {MEMORY_HINT}") from None
    is_busy = distributed.size == 1 and share < IDLE_SHARE  # a thread of several processes waits for the others
    return Speed(tokens_per_update / rate, rate, validation, is_busy)
