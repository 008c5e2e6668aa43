"""What `train --dry-run` says is what the training would do."""

import re

import pytest
import torch

from seq2attn.data.prepare import prepare
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.dry_run import describe_training
from seq2attn.training.plan import Speed
from seq2attn.training.resolve import BATCH_TOKENS, resolve_config
from tests.support.trainings import BAHDANAU, content

ALONE = DistributedContext(rank=0, size=1, device=torch.device("cpu"))


def test_the_speed_is_that_of_the_automatic_batches(corpus, monkeypatch):
    """Pairs count as often as they are in an epoch, and an update has several batches."""
    values = content(corpus, "run", batch={"gradient_accumulation": 2})
    values["data"]["train"]["repeat"] = 1000
    experiment = ExperimentConfig.model_validate(values)
    prepared = prepare(experiment.data, experiment.tokenizer, corpus / "run", lambda line: None)
    resolved = resolve_config(experiment, prepared.train, ALONE, lambda training: Speed(1.0, 1.0, 1.0))
    tokens = resolved.experiment.training.batch.tokens
    assert min(BATCH_TOKENS) < tokens < max(BATCH_TOKENS)
    measured = []

    def measure(experiment, *_, **options):
        measured.append(experiment.training.batch.tokens)
        return Speed(0.25, 9.0, 2.5)

    monkeypatch.setattr("seq2attn.training.dry_run.measure_speed", measure)
    assert f"time: 0.25 s an update, 2.5 s a validation, with {tokens} tokens on cpu" in describe_training(experiment)
    assert measured == [tokens]


def test_other_text_than_the_prepared_is_not_measured(corpus):
    experiment = ExperimentConfig.model_validate(content(corpus, "run"))
    prepare(experiment.data, experiment.tokenizer, corpus / "run", lambda line: None)
    other = experiment.with_value("data.filters.max_length", 3)
    assert "s an update" in describe_training(experiment)
    assert "time: measured once this text is prepared" in describe_training(other)


def describe(folder, **options):
    """The model of a config, and the MiB that it takes; its text is not prepared."""
    text = describe_training(ExperimentConfig.model_validate(content(folder, "run", **options)))
    (mebibytes,) = re.findall(r"^memory: up to ([\d,]+) MiB", text, re.MULTILINE)
    return text.split("\n")[0], int(mebibytes.replace(",", ""))


def test_averages_of_the_weights_need_memory(tmp_path):
    model = {**BAHDANAU, "embeddings": {"dim": 256}}
    (line, plain), (_, averaged) = (describe(tmp_path, model=model, **ema) for ema in ({}, {"ema_decay": 0.9}))
    parameters = int(re.search(r"([\d,]+) parameters", line)[1].replace(",", ""))
    assert plain == pytest.approx(4 * 4 * parameters / 2**20, abs=1)  # each of the tensors has four bytes
    assert averaged == pytest.approx(plain * 5 / 4, abs=2)  # of weights, gradients and two tensors of Adam


def test_a_plug_in_that_needs_memory_is_built_with_it(tmp_path):
    model = {**BAHDANAU, "encoder": {"kind": "tests.support.faults:Measured"}}
    assert re.match(r"model: tests\S+:Measured and bahdanau, [\d,]+ parameters", describe(tmp_path, model=model)[0])
