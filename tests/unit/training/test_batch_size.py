"""`training.batch.tokens: fit`: how many tokens a memory holds."""

from __future__ import annotations

import pytest
import torch

from seq2attn.data.corpus import Corpus
from seq2attn.experiment import ExperimentConfig
from seq2attn.models import build_model
from seq2attn.training.auto_settings import MIN_UPDATES
from seq2attn.training.batch_size import MIN_TOKENS, SAFETY_MARGIN, find_max_tokens, largest_that_fits
from seq2attn.training.config import TrainingConfig
from seq2attn.training.distributed import init_distributed
from seq2attn.training.loss import TrainingLoss
from seq2attn.training.optimizers import parameter_groups
from tests.laws.small import CALM, content


@pytest.mark.parametrize("room", [2_000, 5_000, 300_000, 1_234_567])
def test_nearly_all_of_the_room_is_found_and_a_margin_left(room):
    tried = []

    def holds(tokens):
        tried.append(tokens)
        return tokens <= room

    found = largest_that_fits(holds, 10**9)
    assert found >= MIN_TOKENS
    assert (1 - 1 / 8) * SAFETY_MARGIN * room <= max(found, MIN_TOKENS / SAFETY_MARGIN) <= max(room, MIN_TOKENS / SAFETY_MARGIN)
    assert len(tried) <= 16


def fitting(tmp_path, pairs, training=None, **limits):
    """How many tokens fit a model whose encoder holds so much, and what it was tried with."""
    model = {**CALM, "encoder": {"kind": "tests.laws.faults:Narrow", "spares": 0, **limits}}
    config = ExperimentConfig.model_validate(content(tmp_path, "run", model=model)).model
    objective = TrainingLoss(build_model(config, 20, 20))
    training = TrainingConfig.model_validate(training or {})
    optimizer = training.optimizer.build(parameter_groups(objective.model))
    corpus = Corpus.from_pairs([([4] * 7, [5] * 7)] * pairs, 20)
    tried = []
    objective.model.encoder.register_forward_hook(
        lambda part, given, gave: tried.append((len(given[0]), torch.is_autocast_enabled("cpu")))
    )
    with init_distributed(torch.device("cpu")) as world:
        tokens = find_max_tokens(training, objective, optimizer, corpus, world)
    assert all(parameter.grad is None for parameter in objective.parameters()) and not optimizer.state
    return tokens, tried


@pytest.mark.parametrize("error", ["cuda", "cpu", "python"])
def test_memory_that_is_short_is_known_however_it_is_said(tmp_path, error):
    tokens, _ = fitting(tmp_path, 10**5, rows=400, error=error)
    assert SAFETY_MARGIN * 400 * 8 * 7 / 8 <= tokens <= SAFETY_MARGIN * 400 * 8


def test_it_is_tried_in_the_precision_of_the_training(tmp_path):
    for precision, autocast in (("bfloat16", True), ("float32", False)):
        _, tried = fitting(tmp_path, 10**5, {"precision": precision}, rows=300)
        assert tried and all(within == autocast for _, within in tried)


def test_an_epoch_keeps_its_updates(tmp_path):
    tokens, _ = fitting(tmp_path, 50_000, rows=10**6)
    assert 0.8 * 50_000 * 8 / MIN_UPDATES < tokens <= 50_000 * 8 / MIN_UPDATES
    assert fitting(tmp_path, 100)[0] == MIN_TOKENS
