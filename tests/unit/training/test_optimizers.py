"""First steps of the optimizers against values computed by hand."""

from __future__ import annotations

import pytest
import torch
from pydantic import TypeAdapter

from seq2attn.training.optimizers import OptimizerConfig

KINDS = ("adam", "adamw", "sgd", "adadelta")


def start(config):
    point = torch.nn.Parameter(torch.tensor([3.0, -2.0]))
    return point, TypeAdapter(OptimizerConfig).validate_python(config).build([point])


def step(point, optimizer):
    loss = (point * torch.tensor([1.0, 2.0])).pow(2).sum() / 2  # of gradient (x, 4 y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


@pytest.mark.parametrize("kind", KINDS)
def test_all_options_have_defaults(kind):
    point, optimizer = start({"kind": kind})
    step(point, optimizer)
    assert (point != torch.tensor([3.0, -2.0])).all()


def test_sgd_by_hand():
    point, optimizer = start({"kind": "sgd", "lr": 0.1})
    step(point, optimizer)  # gradient (3, -8)
    torch.testing.assert_close(point.data, torch.tensor([2.7, -1.2]))
    point, optimizer = start({"kind": "sgd", "lr": 0.1, "momentum": 0.5})
    step(point, optimizer)
    step(point, optimizer)  # the second goes by (2.7, -4.8) and half of the first
    torch.testing.assert_close(point.data, torch.tensor([2.7 - 0.42, -1.2 + 0.88]))


def test_adams_first_step_has_the_size_of_the_learning_rate():
    # Kingma and Ba 2015, algorithm 1: bias-corrected, the first step is rate * g / (|g| + epsilon).
    point, optimizer = start({"kind": "adam", "lr": 0.1})
    step(point, optimizer)
    torch.testing.assert_close(point.data, torch.tensor([2.9, -1.9]))


def test_adamw_decays_weights_separately_from_the_gradient():
    # Loshchilov and Hutter 2019: AdamW also subtracts lr * decay * x; Adam's first step has a fixed size.
    point, optimizer = start({"kind": "adamw", "lr": 0.1, "weight_decay": 0.5})
    step(point, optimizer)
    torch.testing.assert_close(point.data, torch.tensor([3 * 0.95 - 0.1, -2 * 0.95 + 0.1]))
    point, optimizer = start({"kind": "adam", "lr": 0.1, "weight_decay": 0.5})
    step(point, optimizer)
    torch.testing.assert_close(point.data, torch.tensor([2.9, -1.9]))


def test_adadeltas_first_step_by_hand():
    # Zeiler 2012, algorithm 1: sqrt(0 + e) / sqrt(0.1 g^2 + e) * g, so about sqrt(e / 0.1) towards the minimum.
    point, optimizer = start({"kind": "adadelta", "rho": 0.9, "eps": 1e-6})
    step(point, optimizer)
    size = (1e-6 / 0.1) ** 0.5
    torch.testing.assert_close(point.data, torch.tensor([3 - size, -2 + size]))
