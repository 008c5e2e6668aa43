"""Batch size and warm-up that follow the corpus and the length of training, and the warning of a warm-up too long."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from seq2attn.config.duration import Duration
from seq2attn.errors import TrainingInterrupted
from seq2attn.experiment import ExperimentConfig
from seq2attn.training.auto_settings import BATCH_TOKENS, MIN_UPDATES, resolve_auto, time_limit_warning
from seq2attn.training.config import BatchConfig, TrainingConfig
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.gradient_accumulation import plan_updates
from seq2attn.training.lr_schedules import InverseSquareRootScheduleConfig, NoamScheduleConfig
from seq2attn.training.train import train
from seq2attn.training.train_state import TrainState
from tests.laws.small import assert_same, content, corpus, last_weights, metrics, trained

__all__ = ["corpus"]  # a fixture
README = Path(__file__).parents[3] / "README.md"
AUTO = {"kind": "inverse-sqrt"}
ALONE = DistributedContext(rank=0, size=1, device=torch.device("cpu"))
PAIRS = (1, 40, 300, 1_000, 3_000, 10_000, 30_000, 60_000)
MIXED = "mixed"


def lengths_of(pairs, length):
    """Token counts of both sides, [pairs, 2]: all of one length, or from 1 to 80, most of them short."""
    if length != MIXED:
        return np.full((pairs, 2), length)
    draws = np.random.default_rng(pairs).geometric(1 / 12, size=(pairs, 2))
    return np.minimum(draws, 80)


def resolved(lengths, world=ALONE, **training):
    lines = []
    return resolve_auto(TrainingConfig(**training), lengths, world, lines.append), lines


def updates_per_epoch(config, lengths):
    """As the trainer makes them."""
    return len(plan_updates(lengths, config, ALONE, epoch=0))


@pytest.mark.parametrize("length", [6, 14, MIXED])
def test_warm_up_is_a_tenth_of_the_updates_for_every_size_of_corpus(length):
    found = []
    for pairs in PAIRS:
        lengths = lengths_of(pairs, length)
        config, _ = resolved(lengths, max_duration=["20 epochs", "2 hours"])
        updates = 20 * updates_per_epoch(config, lengths)
        assert config.lr_schedule.warmup_updates == max(1, updates // 10) <= 4000
        found.append((config.batch.tokens, updates))
    sizes, updates = zip(*found, strict=True)
    assert list(sizes) == sorted(sizes)
    assert sizes[0] == 256 and sizes[-1] > 1024
    assert set(sizes) <= set(BATCH_TOKENS)


@pytest.mark.parametrize("length", [6, 14, MIXED])
def test_the_batch_size_is_the_largest_with_enough_updates_per_epoch(length):
    for pairs in PAIRS:
        lengths = lengths_of(pairs, length)
        config, _ = resolved(lengths)
        tokens = config.batch.tokens
        assert updates_per_epoch(config, lengths) >= MIN_UPDATES or tokens == min(BATCH_TOKENS)
        longer = int((lengths.max(axis=1) + 1).sum())  # EOS included
        assert tokens == max(BATCH_TOKENS) or longer / (2 * tokens) < MIN_UPDATES


def test_the_warm_up_grows_with_the_training_up_to_the_usual_one():
    lengths = lengths_of(1_000, 14)
    found = [
        resolved(lengths, max_duration=[f"{updates} updates"])[0].lr_schedule.warmup_updates
        for updates in (1, 9, 10, 25, 400, 39_990, 40_000, 10**7)
    ]
    assert found == [1, 1, 1, 2, 40, 3999, 4000, 4000]
    by_epochs, _ = resolved(lengths, max_duration=["30 epochs", "100 updates"])
    assert by_epochs.lr_schedule.warmup_updates == 10  # the first limit ends it
    noam, _ = resolved(lengths, max_duration=["500 updates"], lr_schedule={"kind": "noam", "dim": 8})
    assert (noam.lr_schedule.warmup_updates, noam.lr_schedule.dim) == (50, 8)


def test_a_training_that_a_time_ends_warms_up_for_a_tenth_of_twenty_epochs():
    lengths = lengths_of(3_000, 14)
    by_time, by_epochs = (
        resolved(lengths, max_duration=[max_duration])[0] for max_duration in ("2 hours", "20 epochs")
    )
    assert by_time.lr_schedule == by_epochs.lr_schedule
    assert by_time.lr_schedule.warmup_updates == 2 * updates_per_epoch(by_time, lengths)


def test_all_batches_of_an_update_count():
    lengths = lengths_of(30_000, 14)
    alone = resolved(lengths)[0].batch.tokens
    accumulated = resolved(lengths, batch={"gradient_accumulation": 4})[0].batch.tokens
    assert (alone, accumulated) == (2048, 512)
    assert resolved(lengths, DistributedContext(0, 4, torch.device("cpu")))[0].batch.tokens == 512
    part = resolved(lengths_of(40, 14), batch={"micro_batch_tokens": 700})[0].batch
    assert BatchConfig.model_validate(part.model_dump()) == part  # as `--resume` reads it


def test_what_is_chosen_is_logged_and_what_is_given_is_kept():
    lengths = lengths_of(10_000, 15)
    config, lines = resolved(lengths, max_duration=["20 epochs"])
    updates = 20 * updates_per_epoch(config, lengths)
    assert config.batch.tokens == 1024
    assert lines == [
        "batch: 1,024 tokens, by the size of the corpus",
        f"warm-up: {updates // 10} updates, a tenth of about {updates:,}",
    ]
    given = TrainingConfig(
        batch=BatchConfig(tokens=700),
        lr_schedule=InverseSquareRootScheduleConfig(kind="inverse-sqrt", warmup_updates=33),
    )
    lines = []
    assert resolve_auto(given, lengths, ALONE, lines.append) == given
    assert lines == []


def test_a_batch_size_that_is_far_too_large_is_warned_of():
    lengths = lengths_of(10_000, 15)
    given = {"batch": {"tokens": 4096}, "max_duration": ["20 epochs"]}
    config, (line, *_) = resolved(lengths, **given)
    assert config.batch.tokens == 4096
    assert line == (
        f"warning: batches of 4,096 tokens make {updates_per_epoch(config, lengths)} updates per epoch of this corpus;"
        " `training.batch.tokens: 1024` suits its size"
    )
    assert not any("batches" in one for one in resolved(lengths, batch={"tokens": 4095})[1])
    assert any(
        "tokens: 512`" in one for one in resolved(lengths, batch={"tokens": 2048, "gradient_accumulation": 2})[1]
    )


def test_a_warm_up_that_is_longer_than_the_training_is_warned_of():
    lengths = lengths_of(40, 14)
    config, (line,) = resolved(
        lengths,
        max_duration=["180 updates"],
        batch={"tokens": 64},
        lr_schedule={"kind": "inverse-sqrt", "warmup_updates": 4000},
    )
    assert line == (
        "warning: warm-up is 4,000 updates; training will end after about 180:"
        " a tenth of that is usual, `training.lr_schedule.warmup_updates: 18`"
    )
    assert config.lr_schedule.warmup_updates == 4000
    per_epoch = updates_per_epoch(config, lengths)
    limits = {"max_duration": ["6 epochs", "9 hours"], "batch": {"tokens": 64}}
    for warmup, warns in ((3 * per_epoch, False), (3 * per_epoch + 1, True)):  # half of the training
        lr_schedule = {"kind": "cosine", "total_updates": 99, "warmup_updates": warmup}
        _, lines = resolved(lengths, **limits, lr_schedule=lr_schedule)
        assert [f"after about {6 * per_epoch}:" in line for line in lines] == [True] * warns
    assert resolved(lengths, **limits, lr_schedule={"kind": "halving"})[1] == []


def test_a_warm_up_that_a_time_ends_first_is_warned_of_by_the_speed():
    """50 updates in 100 seconds are 1,800 in an hour."""
    state = TrainState(update=50, updates_in_epoch=50, updates_per_epoch=1_000, seconds=100.0)

    def warning(warmup, *max_duration):
        lr_schedule = NoamScheduleConfig(kind="noam", dim=8, warmup_updates=warmup)
        limits = tuple(Duration(float(number), unit) for number, unit in max_duration)
        return time_limit_warning(TrainingConfig(lr_schedule=lr_schedule, max_duration=limits), state)

    assert "warm-up is 901 updates; training will end after about 1,800:" in warning(901, (1, "hours"))
    assert "after about 1,800:" in warning(4000, (20, "epochs"), (9, "hours"), (60, "minutes"))
    assert warning(900, (1, "hours")) is None
    assert warning(4000, (1, "epochs"), (1, "hours")) is None  # the epoch ends first, as was said at the start
    assert warning(4000, (300, "updates")) is None


def auto(folder, run, **options):
    rarely = {"every": "20 updates", "metric": "loss"}
    plain = {"batch": {}, "lr_schedule": AUTO, "report_every": 1, "validation": rarely}
    return trained(folder, run, **{**plain, **options})


def kept(run):
    training = run.load_config().training
    return training.batch.tokens, training.lr_schedule


def rates(run):
    return [line["learning_rate"] for line in metrics(run, "train")]


def test_resumed_it_keeps_the_values_that_it_began_with(corpus):
    run = auto(corpus, "run", max_duration=["30 updates"])
    assert kept(run) == (256, InverseSquareRootScheduleConfig(kind="inverse-sqrt", warmup_updates=3))
    auto(corpus, "run", max_duration=["60 updates"], resume=True)
    assert kept(run) == (256, InverseSquareRootScheduleConfig(kind="inverse-sqrt", warmup_updates=3))
    assert rates(run) == pytest.approx([0.01 * min(u / 3, (3 / u) ** 0.5) for u in range(1, 61)])
    log = (run.folder / "train.log").read_text("utf-8")
    assert re.findall(r"(?:warm-up|batch): .*", log) == [
        "batch: 256 tokens, by the size of the corpus",
        "warm-up: 3 updates, a tenth of about 30",
    ]


def test_resumed_without_the_values_that_it_began_with_it_keeps_them_too(corpus):
    given = {"batch": {"tokens": 64}, "lr_schedule": {**AUTO, "warmup_updates": 7}}
    whole = auto(corpus, "whole", max_duration=["20 updates"], **given)
    run = auto(corpus, "run", max_duration=["8 updates"], **given)
    auto(corpus, "run", max_duration=["20 updates"], resume=True)
    assert kept(run) == kept(whole) == (64, InverseSquareRootScheduleConfig(kind="inverse-sqrt", warmup_updates=7))
    assert rates(run) == rates(whole)
    assert_same(last_weights(run), last_weights(whole))
    other = auto(corpus, "run", max_duration=["40 updates"], lr_schedule={"kind": "noam", "dim": 8}, resume=True)
    assert kept(other) == (64, NoamScheduleConfig(kind="noam", dim=8, warmup_updates=4))


def test_a_time_limit_is_warned_of_at_the_first_report_and_once(corpus):
    options = {
        "lr_schedule": {**AUTO, "warmup_updates": 10**12},
        "max_duration": ["1 hour"],
        "time_limit": "0.001 seconds",
    }
    for _ in range(3):  # each makes one update
        with pytest.raises(TrainingInterrupted):
            auto(corpus, "run", resume="if-exists", **options)
    log = (corpus / "run" / "train.log").read_text("utf-8")
    (line,) = re.findall("# (warning: warm-up is .*)", log)
    assert line.startswith("warning: warm-up is 1,000,000,000,000 updates; training will end after about ")


def test_the_config_of_the_readme_ends_its_warm_up_on_a_small_text(corpus):
    (text,) = re.findall(r"^```yaml\n(run_dir: .*?)^```", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    written = yaml.safe_load(text)
    small = content(corpus, "run", report_every=1)
    written["run_dir"], written["data"] = small["run_dir"], small["data"]
    written["model"]["embeddings"]["dim"] = 16
    for side in ("encoder", "decoder"):
        written["model"][side] |= {"layers": 1, "ffn_dim": 16}
    written["training"] |= {"report_every": 1, "validation": {"metric": "loss", "every": "20 epochs"}}
    run = train(ExperimentConfig.model_validate(written))
    found = rates(run)
    peak = found.index(max(found))
    assert max(found) == run.load_config().training.optimizer.lr
    assert 0 < peak < len(found) / 5
    assert found[-1] < max(found) / 2
    losses = [line["loss"] for line in metrics(run, "train")]
    assert losses[-1] < losses[0]
