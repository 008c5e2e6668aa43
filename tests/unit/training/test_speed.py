"""The speed that is measured before a training: that of its own updates and validations, and lines of slow ones."""

import math
import re
import time
from itertools import pairwise

import pytest
import torch

from seq2attn.data.prepare import prepare
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.search.search_config import LengthsConfig
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.resolve import plan_updates
from seq2attn.training.speed import measure_speed
from seq2attn.training.validation import REPORT_SECONDS
from tests.support.faults import Slow
from tests.support.trainings import BAHDANAU, MODELS, content, log_of, train_run

ALONE = DistributedContext(rank=0, size=1, device=torch.device("cpu"))
SLOW = {**BAHDANAU, "encoder": {"kind": "tests.support.faults:Slow", "per_token": 1}}
SLOW_SEARCH = {**BAHDANAU, "decoder": {"kind": "tests.support.faults:SlowSearch", "dim": 8}}


def measure(corpus, search=None, seconds=0.1, **options):
    values = content(corpus, "run", **options) | {"search": search or {"kind": "greedy"}}
    experiment = ExperimentConfig.model_validate(values)
    prepared = prepare(experiment.data, experiment.tokenizer, corpus / "run", lambda line: None)
    lengths = prepared.train.corpus.lengths
    planned = plan_updates(lengths, experiment.training, ALONE, epoch=0)
    return measure_speed(experiment, prepared, ALONE, seconds), planned, lengths, prepared.dev.lengths


@pytest.mark.parametrize("batch", [{"tokens": 64}, {"tokens": 64, "gradient_accumulation": 3}], ids=str)
def test_updates_and_validations_take_the_time_of_their_tokens(corpus, monkeypatch, batch):
    """By a clock that counts a second for each token of a source, with padding, in the encoder."""
    monotonic = time.monotonic
    monkeypatch.setattr(Slow, "seconds", 0.0)
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + Slow.seconds)
    speed, planned, lengths, dev = measure(corpus, model=SLOW, batch=batch, validation={"metric": "bleu"})
    seconds = sum(len(rows) * int(lengths[rows, 0].max() + 1) for update in planned for rows in update)
    assert speed.seconds_per_update == pytest.approx(seconds / len(planned), rel=0.2)
    assert speed.target_tokens_per_second == pytest.approx((lengths[:, 1] + 1).sum() / seconds, rel=0.2)
    tokens, padded = (dev[:, 0] + 1).sum(), len(dev) * (dev[:, 0].max() + 1)
    assert 2 * tokens <= speed.seconds_per_validation <= 2 * padded + 1  # for its loss, and for its translations


@pytest.mark.parametrize("lengths", [{}, {"max_length": 9}, {"max_length_ratio": 1.5}], ids=str)
def test_a_third_of_the_translations_of_validations_have_their_maximum_lengths(corpus, monkeypatch, lengths):
    """As those of an untrained model, which ends none; the others have the lengths of references."""
    monotonic = time.monotonic
    monkeypatch.setattr(Slow, "seconds", 0.0)
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + Slow.seconds)
    search = {"kind": "greedy", "lengths": lengths}
    speed, _, _, dev = measure(corpus, search=search, model=SLOW_SEARCH, validation={"metric": "bleu"})
    limits = LengthsConfig(**lengths).limits(torch.from_numpy(dev[:, 0])).max_length
    references = torch.from_numpy(dev[:, 1] + 1).minimum(limits)
    expected = float((2 * references + limits).sum()) / 3
    assert speed.seconds_per_validation == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("samples", [0, 2, 4])
def test_validations_by_the_loss_translate_samples_only(corpus, monkeypatch, samples):
    """By a clock that counts in each step of a translation, of a dev set that is measured in part."""
    monotonic = time.monotonic
    for side in ("src", "tgt"):
        path = corpus / f"dev.{side}"
        path.write_text(path.read_text() * 50)
    monkeypatch.setattr(Slow, "seconds", 0.0)
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + Slow.seconds)
    speed, _, _, dev = measure(corpus, model=SLOW_SEARCH, validation={"metric": "loss", "samples": samples})
    limits = LengthsConfig().limits(torch.from_numpy(dev[:, 0])).max_length
    lengths = (2 * torch.from_numpy(dev[:, 1] + 1).minimum(limits) + limits) / 3
    assert speed.seconds_per_validation == pytest.approx(samples * float(lengths.mean()), rel=0.1, abs=5)


def test_a_large_model_is_measured_with_small_updates(corpus, monkeypatch):
    """By the same clock, on which each update of this batch takes more than the time of the measurement."""
    monotonic, options = time.monotonic, {"model": SLOW, "batch": {"tokens": 2048}, "validation": {"metric": "bleu"}}
    monkeypatch.setattr(Slow, "seconds", 0.0)
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + Slow.seconds)
    speed, planned, lengths, _ = measure(corpus, seconds=100, **options)
    seconds = sum(len(rows) * int(lengths[rows, 0].max() + 1) for update in planned for rows in update)
    assert speed.seconds_per_update == pytest.approx(seconds / len(planned), rel=0.3)
    assert len(planned) == 1 and seconds > 200 and Slow.seconds - 100 < 500  # without the time to build it


def test_updates_that_are_skipped_have_a_speed(corpus):
    faulty = {"kind": "tests.support.faults:Faulty", "updates": [*range(1, 99)]}
    speed, *_ = measure(corpus, seconds=1e-3, model={**BAHDANAU, "encoder": faulty}, max_consecutive_skips=99)
    assert 0 < speed.target_tokens_per_second < math.inf


def test_a_slow_validation_is_never_silent_for_long(corpus, monkeypatch):
    """By a clock that counts a second for each sentence in each step."""
    monotonic = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + Slow.seconds)
    search = {"metric": "bleu", "every": "1 updates"}
    log = log_of(train_run(corpus, "run", model=SLOW_SEARCH, max_duration=["1 updates"], validation=search))
    lines = re.findall(r"validating: (\d+) of (\d+) lines begun, token (\d+) of at most (\d+)", log)
    assert {line[:2] for line in lines} == {("6", "6")}
    steps = [0, *(int(line[2]) for line in lines)]
    assert all(1 <= after - before <= REPORT_SECONDS for before, after in pairwise(steps)) and steps[1] <= 6


@pytest.mark.parametrize("name", ["recurrent", "transformer"])
def test_an_epoch_has_all_target_tokens(corpus, name):
    speed, planned, lengths, _ = measure(corpus, model=MODELS[name], ema_decay=0.9)
    tokens = speed.seconds_per_update * speed.target_tokens_per_second * len(planned)
    assert tokens == pytest.approx((lengths[:, 1] + 1).sum())
