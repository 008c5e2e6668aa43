"""Laws of the moving average of the weights: its formula, and where its weights are used."""

import pytest
import torch

from seq2attn.io.weights import load_tensors
from seq2attn.optim.ema import AVERAGE, WeightAverage
from seq2attn.training.checkpoints.checkpoint import list_checkpoints
from tests.support.marks import slow_but
from tests.support.trainings import assert_near, assert_same, last_weights, log_of, train_run

EVERY = {"validation": {"every": "1 updates", "metric": "loss"}, "checkpoints": {"keep_last": 9}}
OPTIMIZERS = [{"kind": "adam", "lr": 0.05}, {"kind": "sgd", "lr": 0.5}, {"kind": "adadelta", "lr": 1.0}]


def checkpoints(run):
    return [load_tensors(checkpoint.model_path) for checkpoint in list_checkpoints(run.folder)]


@pytest.mark.parametrize("optimizer", slow_but(OPTIMIZERS[:1], OPTIMIZERS), ids=lambda optimizer: optimizer["kind"])
def test_checkpoints_hold_the_average_of_the_same_training(corpus, optimizer):
    plain = train_run(corpus, "plain", max_duration=["5 updates"], optimizer=optimizer, **EVERY)
    averaged = train_run(corpus, "averaged", max_duration=["5 updates"], optimizer=optimizer, ema_decay=0.3, **EVERY)
    expected = None
    for update, (weights, found) in enumerate(zip(checkpoints(plain), checkpoints(averaged), strict=True), 1):
        decay = min(0.3, (1 + update) / (10 + update))
        expected = expected or weights
        expected = {name: decay * expected[name] + (1 - decay) * weights[name] for name in weights}
        assert_near(found, expected)
    assert update == 5 and min(0.3, 6 / 15) == 0.3  # the last decay is the configured one, the first are smaller
    (best,) = averaged.weights_origin()["checkpoints"]
    assert_same(load_tensors(averaged.weights_path), checkpoints(averaged)[int(best) - 1])


def test_a_constant_stays_constant():
    """Its average comes nearer by the decay of each update, whatever was before, and does not leave it again."""
    weights = torch.nn.Parameter(torch.randn(3, dtype=torch.double))
    optimizer = torch.optim.SGD([weights], lr=1.0)
    average, constant = WeightAverage(optimizer, 0.4), torch.randn(3, dtype=torch.double)
    weights.grad = torch.zeros_like(weights)
    average.update(1, torch.tensor(0.0))
    distance = weights.detach() - constant
    weights.data.copy_(constant)
    for update in range(2, 60):
        average.update(update, torch.tensor(float(update % 3 == 0)))
        distance *= 1.0 if update % 3 == 0 else min(0.4, (1 + update) / (10 + update))
        torch.testing.assert_close(optimizer.state[weights][AVERAGE], constant + distance, rtol=0, atol=1e-7)
    assert distance.abs().max() < 1e-12
    with average.applied():
        torch.testing.assert_close(weights.data, constant, rtol=0, atol=1e-7)
        torch.testing.assert_close(optimizer.state[weights][AVERAGE], constant)


def test_the_average_of_a_part_begins_with_its_first_gradient():
    """Before it the optimizer, which reads its own state of each parameter, has none."""
    first, late = (torch.nn.Parameter(torch.randn(3)) for _ in range(2))
    optimizer = torch.optim.Adam([first, late], lr=0.1)
    average = WeightAverage(optimizer, 0.4)
    for update in range(1, 4):
        (first.sum() if update == 1 else first.sum() + late.sum()).backward()
        optimizer.step()
        average.update(update, torch.tensor(0.0))
        optimizer.zero_grad()
        assert (AVERAGE in optimizer.state[first], AVERAGE in optimizer.state[late]) == (True, update > 1)


def test_an_average_can_begin_and_end_at_a_resumption(corpus):
    run = train_run(corpus, "run", max_duration=["2 updates"], **EVERY)
    begun = last_weights(run)
    for options in ({"ema_decay": 0.999}, {}):
        train_run(
            corpus, "run", max_duration=["4 updates" if options else "6 updates"], resume=True, **EVERY, **options
        )
        assert log_of(run).count("the new optimizer starts without a state") == (1 if options else 2)
        assert ("state; the weights continue from their averages" in log_of(run)) == (not options)
        state = load_tensors(list_checkpoints(run.folder)[-1].optimizer_path)
        assert any(name.endswith(AVERAGE) for name in state) == bool(options)
    assert last_weights(run).keys() == begun.keys()
