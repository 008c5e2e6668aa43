"""Speed of a training on this machine, measured with a new model that is thrown away."""

import math
import time
from functools import partial
from itertools import cycle, islice

import numpy as np
import torch

from seq2attn.config.duration import Duration
from seq2attn.data.batch_planner import Indices
from seq2attn.data.collate import count_target_tokens, make_micro_batches
from seq2attn.data.prefetch import prefetch
from seq2attn.data.prepared_data import PreparedData
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.terminal import Log
from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.models import build_model
from seq2attn.nn.device import configure_cuda
from seq2attn.optim.lr_schedules import ConstantScheduleConfig
from seq2attn.optim.optimizers import parameter_groups
from seq2attn.training.distributed import DistributedContext, StopRequest
from seq2attn.training.initial_weights import freeze_parameters, load_initial_weights
from seq2attn.training.loop import Trainer
from seq2attn.training.metrics_logger import MetricsLogger, Session
from seq2attn.training.minimum_risk import build_loss
from seq2attn.training.plan import Speed
from seq2attn.training.resolve import plan_updates
from seq2attn.training.train_state import TrainState
from seq2attn.training.validation import Validator

MAX_PAIRS = 100_000
"""Number of training pairs, evenly spread, whose batches are tried."""
MIN_UPDATES, MAX_UPDATES = 2, 100
FIRST_PAIRS = 8
"""Number of pairs of the first updates, by which those are made small that would take longer than the whole trial."""
FIRST_SENTENCES, STEPS = 8, 9
"""Number of sentences of the first validation that is measured, and of tokens of the translations of the last."""
IDLE_SHARE = 0.8
"""CPU time of this thread by elapsed time: below this share, other programs used the machine."""
TINY_LR = 1e-30


def build_parts(
    experiment: ExperimentConfig, prepared: PreparedData, device: torch.device, log: Log | None = None
) -> tuple[TrainingLoss, torch.optim.Optimizer]:
    """The loss of a model with random weights, or with `log` its initial ones, which are logged; its optimizer."""
    model = build_model(experiment.model, *map(len, prepared.tokenizers.vocabularies))
    if log is not None:
        load_initial_weights(model, experiment, prepared, log)
    freeze_parameters(model, experiment.training)
    optimizer = experiment.training.optimizer.build(parameter_groups(model.to(device), experiment.training.lr_scales))
    return build_loss(model, experiment, prepared), optimizer


def measure_speed(
    experiment: ExperimentConfig, prepared: PreparedData, distributed: DistributedContext, seconds: float
) -> Speed:
    """The speed of updates and validations with a model of random weights, measured in about `seconds`.

    All processes get the same numbers. `training.batch.tokens` has to be a number.
    """
    configure_cuda(distributed.device, tf32=experiment.training.precision != "float32")
    corpus, rows = prepared.train.corpus, prepared.train.rows(0, 0)
    rows = rows[:: math.ceil(len(rows) / MAX_PAIRS)]
    planned = plan_updates(corpus.lengths[rows], experiment.training, distributed, epoch=0)
    tokens_per_update = float((corpus.lengths[rows, 1] + 1).sum()) / len(planned)
    training = experiment.training.with_value("lr_schedule", ConstantScheduleConfig())
    training = training.with_value("optimizer.lr", TINY_LR).with_value("validation.every", Duration(1, "epochs"))
    experiment = experiment.with_value("training", training)
    logger = MetricsLogger(RunDirectory(experiment.run_dir), is_main_process=False, since=None, tensorboard=False)
    session = Session(RunDirectory(experiment.run_dir), distributed, logger, StopRequest())
    parts = build_parts(experiment, prepared, distributed.device)
    trainer = Trainer(experiment, prepared, *parts, TrainState(), session)
    start, used = time.monotonic(), time.thread_time()
    updates = [[rows[places] for places in update] for update in planned[:MAX_UPDATES]]
    rate = _target_tokens_per_second(trainer, updates, seconds / 2)
    share = (time.thread_time() - used) / (time.monotonic() - start)
    is_busy = distributed.size == 1 and share < IDLE_SHARE  # a thread of several processes waits for the others
    return Speed(tokens_per_update / rate, rate, _seconds_per_validation(experiment, trainer, seconds / 2), is_busy)


def _target_tokens_per_second(trainer: Trainer, updates: list[list[Indices]], seconds: float) -> float:
    """The speed of some updates after two small ones; where they take long, that of their first pairs."""
    is_packed, is_pinned = trainer.training.batch.padding_free, trainer.distributed.device.type != "cpu"
    make = partial(make_micro_batches, trainer.prepared.train.corpus, packed=is_packed, pinned=is_pinned)
    for _ in range(2):  # the first also allocates, and compiles
        start = _clock(trainer.distributed)
        trainer.update(make([rows[:FIRST_PAIRS] for rows in updates[0][:1]]), make)
    size = int(FIRST_PAIRS * max(1.0, seconds / (_clock(trainer.distributed) - start)))
    if size < sum(map(len, updates[0])):
        updates = [[rows[:size] for rows in update[:1]] for update in updates]
    tokens, used, start = 0.0, 0.0, _clock(trainer.distributed)
    for number, micro_batches in enumerate(prefetch(make, islice(cycle(updates), MAX_UPDATES)), start=1):
        tokens += count_target_tokens(micro_batches)  # also of updates that are skipped
        trainer.update(micro_batches, make)
        used = _clock(trainer.distributed) - start
        if number >= MIN_UPDATES and used > seconds:
            break
    return trainer.distributed.all_reduce_sum(tokens)[0] / used


def _seconds_per_validation(experiment: ExperimentConfig, trainer: Trainer, seconds: float) -> float:
    """The time of a validation, from that of some sentences and a few steps.

    Translations get the mean length of references, but a third of them, as if the first of three validations, their
    maximum: a model that is hardly trained ends none.
    """
    dev, lengths = trainer.prepared.dev.lengths, experiment.search.lengths
    longest = lengths.limits(torch.from_numpy(dev[:, 0])).max_length.numpy()
    length = float((2 * np.minimum(dev[:, 1] + 1, longest) + longest).mean()) / 3
    total, translated = len(trainer.validator.rows), len(trainer.validator.translated)

    def used(size: int, steps: int) -> float:
        limits = {"min_length": steps, "max_length": steps, "min_length_ratio": 0.0, "max_length_ratio": None}
        part = experiment.with_value("search.lengths", lengths.model_copy(update=limits))
        part = part.with_value("training.validation.max_sentences", size)
        validator, start = Validator(part, trainer.prepared, trainer.distributed), _clock(trainer.distributed)
        validator.validate(trainer.loss_module)
        return _clock(trainer.distributed) - start

    size = min(total, FIRST_SENTENCES)
    short = used(size, 1)  # the first one also allocates; many sentences go faster together
    for least in (8 * FIRST_SENTENCES, 1):
        if (more := min(total, max(least, int(size * seconds / 6 / short)))) > size:
            size, short = more, used(more, 1)
    step = max(0.0, used(size, STEPS) - short) / (STEPS - 1)
    losses = max(0.0, short - 2 * step)  # with EOS; by `validation.metric: loss` few sentences are translated
    return losses * total / size + step * length * translated / max(1, min(size, translated))


def _clock(distributed: DistributedContext) -> float:
    """Time in seconds once the device has done its work; the mean of all processes, so that they agree."""
    if distributed.device.type == "cuda":
        torch.cuda.synchronize(distributed.device)
    return distributed.all_reduce_sum(time.monotonic() / distributed.size)[0]
