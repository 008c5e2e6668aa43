"""The speed that is measured before a training: that of its own updates and validations."""

import time

import pytest
import torch

from seq2attn.data.prepare import prepare
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.resolve import plan_updates
from seq2attn.training.speed import measure_speed
from tests.support.faults import Slow
from tests.support.trainings import BAHDANAU, MODELS, content

ALONE = DistributedContext(rank=0, size=1, device=torch.device("cpu"))
SLOW = {**BAHDANAU, "encoder": {"kind": "tests.support.faults:Slow", "per_token": 1}}


def measure(corpus, **options):
    experiment = ExperimentConfig.model_validate(content(corpus, "run", **options))
    prepared = prepare(experiment.data, experiment.tokenizer, corpus / "run", lambda line: None)
    lengths = prepared.train.corpus.lengths
    planned = plan_updates(lengths, experiment.training, ALONE, epoch=0)
    return measure_speed(experiment, prepared, ALONE, 0.1), planned, lengths, prepared.dev.lengths


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


@pytest.mark.parametrize("name", ["recurrent", "transformer"])
def test_an_epoch_has_all_target_tokens(corpus, name):
    speed, planned, lengths, _ = measure(corpus, model=MODELS[name], ema_decay=0.9)
    tokens = speed.seconds_per_update * speed.target_tokens_per_second * len(planned)
    assert tokens == pytest.approx((lengths[:, 1] + 1).sum())
