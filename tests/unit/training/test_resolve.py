"""Automatic batch size and warm-up, and warnings about values that do not suit the corpus."""

import re

import numpy as np
import pytest
import torch

from seq2attn.experiment.training_config import CPU_MICRO_BATCH_TOKENS, BatchConfig, TrainingConfig
from seq2attn.optim.lr_schedules import CosineScheduleConfig, InverseSquareRootScheduleConfig, SchedulePoint
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.resolve import BATCH_TOKENS, MIN_UPDATES, has_auto, plan_updates, resolve_training
from seq2attn.training.train_state import TrainState
from tests.support.marks import slow_but
from tests.support.trainings import (
    assert_same,
    last_weights,
    log_of,
    metrics,
    train_run,
)

AUTO = {"kind": "inverse-sqrt"}
ALONE = DistributedContext(rank=0, size=1, device=torch.device("cpu"))
MIXED = "mixed"


def lengths_of(pairs, length):
    """Token counts of both sides, [pairs, 2]: constant, or from 1 to 80, mostly short."""
    if length != MIXED:
        return np.full((pairs, 2), length)
    return np.minimum(np.random.default_rng(pairs).geometric(1 / 12, size=(pairs, 2)), 80)


def every(config, duration):
    return TrainingConfig.model_validate({**config.model_dump(), "validation": {"every": duration}})


def resolve(lengths, world=ALONE, state=None, **training):
    config = TrainingConfig(**training)
    resolved, _, lines = resolve_training(config, lengths, world, state or TrainState())
    assert has_auto(config) == (resolved != every(config, "1 epoch"))
    return resolved, lines


def updates_per_epoch(config, lengths):
    return len(plan_updates(lengths, config, ALONE, epoch=0))


@pytest.mark.parametrize("length", slow_but([14, MIXED], [6, 14, MIXED]))
def test_batch_size_and_warm_up_suit_every_size_of_corpus(length):
    sizes = []
    for pairs in (1, 40, 300, 1_000, 3_000, 10_000, 30_000, 60_000):
        lengths = lengths_of(pairs, length)
        config, _ = resolve(lengths, max_duration=["20 epochs", "2 hours"])
        tokens, per_epoch = config.batch.tokens, updates_per_epoch(config, lengths)
        assert config.lr_schedule.warmup_updates == max(1, 20 * per_epoch // 10) <= 4000
        assert per_epoch >= MIN_UPDATES or tokens == min(BATCH_TOKENS)
        longer = int((lengths.max(axis=1) + 1).sum())  # with EOS
        assert tokens == max(BATCH_TOKENS) or longer / (2 * tokens) < MIN_UPDATES  # twice as large is too large
        sizes.append(tokens)
    assert sizes == sorted(sizes) and set(sizes) <= set(BATCH_TOKENS)
    assert sizes[0] == 256 and sizes[-1] > 1024


def test_the_warm_up_is_a_tenth_of_the_training_up_to_4000():
    lengths = lengths_of(1_000, 14)

    def warmup(*max_duration, **training):
        return resolve(lengths, max_duration=[*max_duration], **training)[0].lr_schedule.warmup_updates

    updates = (1, 9, 10, 25, 400, 39_990, 40_000, 10**7)
    assert [warmup(f"{number} updates") for number in updates] == [1, 1, 1, 2, 40, 3999, 4000, 4000]
    assert warmup("30 epochs", "100 updates") == 10  # the first limit
    assert warmup("500 updates", lr_schedule={"kind": "noam", "dim": 8}) == 50


def test_the_batch_size_counts_all_batches_of_an_update():
    lengths = lengths_of(30_000, 14)
    assert resolve(lengths)[0].batch.tokens == 2048
    assert resolve(lengths, batch={"gradient_accumulation": 4})[0].batch.tokens == 512
    assert resolve(lengths, DistributedContext(0, 4, torch.device("cpu")))[0].batch.tokens == 512
    batch = resolve(lengths_of(40, 14), batch={"micro_batch_tokens": 700})[0].batch
    assert BatchConfig.model_validate(batch.model_dump()) == batch  # for `--resume`


@pytest.mark.parametrize(("precision", "tokens"), CPU_MICRO_BATCH_TOKENS.items())
def test_micro_batches_are_smaller_on_a_cpu_and_the_smallest_in_float32(precision, tokens):
    lengths, config = lengths_of(3_000, MIXED), TrainingConfig(batch={"tokens": 8192}, precision=precision)
    for device, maximum in (("cpu", tokens), ("cuda", 8192)):
        updates = plan_updates(lengths, config, DistributedContext(0, 1, torch.device(device)), epoch=0)
        sizes = [len(rows) * (lengths[rows].max() + 1) for update in updates for rows in update]  # with EOS
        assert 0.8 * maximum < max(sizes) <= maximum
    assert CPU_MICRO_BATCH_TOKENS["float32"] <= tokens


def test_automatic_values_are_logged_and_configured_ones_kept():
    lengths = lengths_of(10_000, 15)
    config, lines = resolve(lengths, max_duration=["20 epochs"])
    updates = 20 * updates_per_epoch(config, lengths)
    assert lines == [
        "batch: 1,024 tokens, by the size of the corpus",
        f"warm-up: {updates // 10} updates, a tenth of about {updates:,}",
    ]
    schedule = InverseSquareRootScheduleConfig(warmup_updates=33)
    config = TrainingConfig(batch=BatchConfig(tokens=700), lr_schedule=schedule)
    assert resolve_training(config, lengths, ALONE, TrainState())[::2] == (every(config, "1 epoch"), [])


COSINE = {"kind": "cosine", "warmup_updates": 5}


def test_a_cosine_schedule_ends_with_the_training():
    lengths = lengths_of(300, 14)
    per_epoch = updates_per_epoch(TrainingConfig(batch={"tokens": 256}), lengths)
    for duration, updates in (["70 updates"], 70), (["3 epochs", "1 hour"], 3 * per_epoch):
        config, (line,) = resolve(lengths, max_duration=duration, batch={"tokens": 256}, lr_schedule=COSINE)
        schedule = config.lr_schedule
        assert line == f"cosine schedule: {updates} updates"
        assert schedule == CosineScheduleConfig(**COSINE, total_updates=updates)
        before, last = (schedule.lr_factor(SchedulePoint(update, 0.0, 0)) for update in (updates - 1, updates))
        assert before > last == 0


@pytest.mark.parametrize(("total", "warns"), [(89, True), (90, False), (100, False), (1000, False)])
def test_a_cosine_schedule_that_ends_long_before_the_training_causes_a_warning(total, warns):
    options = {
        "max_duration": ["100 updates"],
        "batch": {"tokens": 256},
        "lr_schedule": {**COSINE, "total_updates": total},
    }
    config, lines = resolve(lengths_of(300, 14), **options)
    warning = (
        f"warning: the cosine schedule ends at update {total}, and training after about 100;"
        " `training.lr_schedule.total_updates: auto` decays the learning rate until then"
    )
    assert lines == [warning] * warns and config.lr_schedule.total_updates == total


def test_a_longer_training_has_a_longer_cosine_schedule(corpus):
    options = {"lr_schedule": COSINE, "batch": {"tokens": 256}, "report_every": 1}
    train_run(corpus, "run", max_duration=["12 updates"], **options)
    run = train_run(corpus, "run", max_duration=["20 updates"], resume=True, **options)
    rates = {line["update"]: line["learning_rate"] for line in metrics(run) if line["kind"] == "train"}
    assert rates[12] == rates[20] == 0 < rates[19] < rates[13]


@pytest.mark.parametrize(("before", "after"), [(64, 256), (256, 64)])
def test_a_cosine_schedule_ends_with_a_training_of_other_batches(corpus, before, after):
    options = {"lr_schedule": COSINE, "report_every": 1}
    train_run(corpus, "run", max_duration=["2 epochs"], batch={"tokens": before}, **options)
    run = train_run(corpus, "run", max_duration=["4 epochs"], batch={"tokens": after}, resume=True, **options)
    *_, (update, rate), last = [(line["update"], line["learning_rate"]) for line in metrics(run, "train")]
    assert last == (update + 1, 0) and rate > 0
    assert run.load_config().training.lr_schedule.total_updates == update + 1


@pytest.mark.parametrize(
    ("before", "step"), [(7, 7), *(pytest.param(before, 1, marks=pytest.mark.slow) for before in (7, 37, 140))]
)
def test_the_end_of_a_schedule_is_that_of_each_later_resumption(before, step):
    """Training goes on from the middle of an epoch of `before` updates, and is resumed every `step` updates."""
    options = {"max_duration": ["9 epochs"], "batch": {"tokens": 256}, "lr_schedule": COSINE}
    lengths = lengths_of(300, 14)
    per_epoch = updates_per_epoch(TrainingConfig(batch={"tokens": 256}), lengths)
    for half in range(before):
        state, ends = TrainState(2 * before + half, 2, half, before), set()
        done = half * per_epoch // before
        for updates in range(0, 7 * per_epoch - done, step):
            ends.add(resolve(lengths, state=state, **options)[0].lr_schedule.total_updates)
            epoch, place = divmod(2 * per_epoch + done + updates, per_epoch)
            state = TrainState(2 * before + half + updates, epoch, place, per_epoch)
        assert len(ends) == 1


def test_a_batch_size_that_is_far_too_large_causes_a_warning():
    lengths = lengths_of(10_000, 15)
    config, (line, *_) = resolve(lengths, batch={"tokens": 4096}, max_duration=["20 epochs"])
    assert line == (
        f"warning: batches of 4,096 tokens make {updates_per_epoch(config, lengths)} updates per epoch of this corpus;"
        " `training.batch.tokens: 1024` suits its size"
    )
    assert not any("batches" in line for line in resolve(lengths, batch={"tokens": 4095})[1])
    lines = resolve(lengths, batch={"tokens": 2048, "gradient_accumulation": 2})[1]
    assert any("tokens: 512`" in line for line in lines)
    assert not any("batches" in line for line in resolve(lengths_of(40_000, 80), batch={"tokens": 16384})[1])


def test_a_warm_up_longer_than_half_of_the_training_causes_a_warning():
    lengths = lengths_of(40, 14)
    schedule = {"kind": "inverse-sqrt", "warmup_updates": 4000}
    config, (line,) = resolve(lengths, max_duration=["180 updates"], batch={"tokens": 64}, lr_schedule=schedule)
    assert line == (
        "warning: warm-up is 4,000 updates; training will end after about 180:"
        " a tenth of that is usual, `training.lr_schedule.warmup_updates: 18`"
    )
    per_epoch = updates_per_epoch(config, lengths)
    options = {"max_duration": ["6 epochs", "9 hours"], "batch": {"tokens": 64}}
    for warmup, warns in ((3 * per_epoch, False), (3 * per_epoch + 1, True)):
        schedule = {"kind": "cosine", "total_updates": 99, "warmup_updates": warmup}
        _, lines = resolve(lengths, **options, lr_schedule=schedule)
        assert [f"after about {6 * per_epoch}:" in line for line in lines] == [True] * warns
    assert resolve(lengths, **options, lr_schedule={"kind": "halving"})[1] == []


def train_auto(folder, run, **options):
    validation = {"every": "20 updates", "metric": "loss"}
    defaults = {"batch": {}, "lr_schedule": AUTO, "report_every": 1, "validation": validation}
    return train_run(folder, run, **{**defaults, **options})


def settings(run):
    training = run.load_config().training
    return training.batch.tokens, training.lr_schedule.warmup_updates


def rates(run):
    return [line["learning_rate"] for line in metrics(run, "train")]


def test_a_resumed_training_keeps_automatic_values(corpus):
    run = train_auto(corpus, "run", max_duration=["30 updates"])
    assert settings(run) == (256, 3)
    train_auto(corpus, "run", max_duration=["40 updates"], resume=True)
    assert settings(run) == (256, 3)
    assert rates(run) == pytest.approx([0.01 * min(u / 3, (3 / u) ** 0.5) for u in range(1, 41)])
    assert re.findall(r"(?:warm-up|batch): .*", log_of(run)) == [
        "batch: 256 tokens, by the size of the corpus",
        "warm-up: 3 updates, a tenth of about 30",
    ]


def test_a_training_resumed_without_its_values_keeps_them(corpus):
    values = {"batch": {"tokens": 64}, "lr_schedule": {**AUTO, "warmup_updates": 7}}
    options = {"validation": {"every": "4 updates", "metric": "loss"}}
    whole = train_auto(corpus, "whole", max_duration=["8 updates"], **values, **options)
    run = train_auto(corpus, "run", max_duration=["4 updates"], **values, **options)
    train_auto(corpus, "run", max_duration=["8 updates"], resume=True, **options)
    assert settings(run) == settings(whole) == (64, 7)
    assert rates(run) == rates(whole)
    assert_same(last_weights(run), last_weights(whole))
    schedule = {"kind": "noam", "dim": 8}
    run = train_auto(corpus, "run", max_duration=["20 updates"], lr_schedule=schedule, resume=True)
    assert settings(run) == (64, 2)
