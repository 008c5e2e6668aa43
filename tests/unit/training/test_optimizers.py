"""Each optimiser lowers what it is to lower, and is PyTorch's with the options of the config."""

from __future__ import annotations

import pytest
import torch
from pydantic import TypeAdapter

from seq2attn.training.optimizers import OptimizerConfig

KINDS = {
    "adam": {"kind": "adam", "lr": 0.1},
    "adam-decay": {"kind": "adam", "lr": 0.1, "weight_decay": 0.1},
    "adamw": {"kind": "adamw", "lr": 0.1, "weight_decay": 0.1},
    "sgd": {"kind": "sgd", "lr": 0.1},
    "sgd-momentum": {"kind": "sgd", "lr": 0.02, "momentum": 0.9, "weight_decay": 0.1},
    "adadelta": {"kind": "adadelta", "rho": 0.9},
}


def start(config):
    point = torch.nn.Parameter(torch.tensor([3.0, -2.0]))
    return point, TypeAdapter(OptimizerConfig).validate_python(config).build([point])


def step(point, optimizer):
    loss = (point * torch.tensor([1.0, 2.0])).pow(2).sum() / 2  # of gradient (x, 4 y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


@pytest.mark.parametrize("name", KINDS)
def test_there_is_a_default_for_all_but_the_kind(name):
    point, optimizer = start({"kind": KINDS[name]["kind"]})
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


def test_adams_first_step_is_the_rate_whatever_the_gradient():
    # Kingma and Ba 2015, algorithm 1: bias-corrected, the first step is rate * g / (|g| + epsilon).
    point, optimizer = start({"kind": "adam", "lr": 0.1})
    step(point, optimizer)
    torch.testing.assert_close(point.data, torch.tensor([2.9, -1.9]))


def test_decay_apart_is_not_decay_in_the_gradient():
    # Loshchilov and Hutter 2019: AdamW takes rate * decay * x off beside the step; Adam's step is of one size anyway.
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
