"""`training.batch.tokens: fit`: the largest batch that fits in memory."""

import numpy as np
import pytest
import torch

from seq2attn.data.corpus import Corpus
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.training_config import TrainingConfig
from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.models import build_model
from seq2attn.optim.optimizers import parameter_groups
from seq2attn.training.distributed import init_distributed
from seq2attn.training.memory import MIN_TOKENS, SAFETY_MARGIN, MemoryTrial, largest_that_fits
from seq2attn.training.resolve import MIN_UPDATES
from tests.support.trainings import BAHDANAU, MODELS, content


@pytest.mark.parametrize("room", [500, 3_000, 300_000, 1_234_567])
def test_nearly_all_of_the_room_is_used_less_a_margin(room):
    trials = []
    tokens = largest_that_fits(lambda tokens: trials.append(tokens) or tokens <= room, 10**9)
    if room < 2 * MIN_TOKENS:
        assert tokens == MIN_TOKENS
    else:
        assert (1 - 1 / 8) * SAFETY_MARGIN * room <= tokens <= SAFETY_MARGIN * room
    assert len(trials) <= 16


def fit(tmp_path, pairs, training=None, repeat=1, **limits):
    """The number of tokens that fit a model with limited memory, and whether each trial was in autocast."""
    model = {**BAHDANAU, "encoder": {"kind": "tests.support.faults:OutOfMemory", "spares": 0, **limits}}
    config = ExperimentConfig.model_validate(content(tmp_path, "run", model=model)).model
    objective = TrainingLoss(build_model(config, 20, 20))
    training = TrainingConfig.model_validate(training or {})
    optimizer = training.optimizer.build(parameter_groups(objective.model, {}))
    corpus, trials = Corpus.from_pairs([([4] * 7, [5] * 7)] * pairs, 20), []
    objective.model.encoder.register_forward_hook(lambda *_: trials.append(torch.is_autocast_enabled("cpu")))
    rows = np.repeat(np.arange(pairs), repeat)
    with init_distributed(torch.device("cpu")) as world:
        tokens = MemoryTrial(training, objective, optimizer, world).find_max_tokens(corpus, rows)
    assert all(parameter.grad is None for parameter in objective.parameters()) and not optimizer.state
    return tokens, trials


@pytest.mark.parametrize(("error", "precision"), [("cuda", "bfloat16"), ("cpu", "float32"), ("python", "float32")])
def test_trials_until_memory_is_full_are_in_the_precision_of_the_training(tmp_path, error, precision):
    tokens, trials = fit(tmp_path, 10**5, {"precision": precision}, max_rows=400, error=error)
    assert SAFETY_MARGIN * 400 * 8 * 7 / 8 <= tokens <= SAFETY_MARGIN * 400 * 8
    assert set(trials) == {precision == "bfloat16"}


def test_an_epoch_has_the_minimum_number_of_updates(tmp_path):
    for batches in (2, 1):
        tokens, _ = fit(tmp_path, 50_000, {"batch": {"gradient_accumulation": batches}}, max_rows=10**6)
        assert 0.8 * 50_000 * 8 / MIN_UPDATES < batches * tokens <= 50_000 * 8 / MIN_UPDATES
    assert fit(tmp_path, 5_000, repeat=10, max_rows=10**6)[0] == tokens
    assert fit(tmp_path, 100)[0] == MIN_TOKENS


@pytest.mark.parametrize("padding_free", [False, True])
def test_trials_are_padded_or_packed_as_in_the_training(tmp_path, padding_free):
    config = ExperimentConfig.model_validate(content(tmp_path, "run", model=MODELS["transformer"])).model
    objective = TrainingLoss(build_model(config, 20, 20))
    training = TrainingConfig.model_validate({"batch": {"padding_free": padding_free}})
    optimizer = training.optimizer.build(parameter_groups(objective.model, {}))
    corpus, batches = Corpus.from_pairs([([4] * 7, [5] * 7)] * 50_000, 20), []
    objective.register_forward_pre_hook(lambda _, arguments: batches.append(arguments[0]))
    with init_distributed(torch.device("cpu")) as world:
        MemoryTrial(training, objective, optimizer, world).find_max_tokens(corpus, np.arange(50_000))
    assert batches and all((len(batch.source) == 1) == padding_free for batch in batches)
