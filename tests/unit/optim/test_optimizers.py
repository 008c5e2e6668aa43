"""Optimizers against PyTorch's with the same options, and schedules against values of the papers' formulas."""

import math
from dataclasses import replace

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from seq2attn.experiment.training_config import TrainingConfig
from seq2attn.optim.ema import WeightAverage
from seq2attn.optim.lr_schedules import LRScheduleConfig, SchedulePoint
from seq2attn.optim.optimizers import OptimizerConfig, parameter_groups
from seq2attn.training.memory import reserve_optimizer_memory

KINDS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD, "adadelta": torch.optim.Adadelta}
ADAM = {"lr": 1e-3, "betas": (0.9, 0.98), "eps": 1e-9, "weight_decay": 0.0}
DEFAULTS = {
    "adam": ADAM,
    "adamw": ADAM,
    "sgd": {"lr": 1.0, "momentum": 0.0, "weight_decay": 0.0},
    "adadelta": {"lr": 1.0, "rho": 0.95, "eps": 1e-6, "weight_decay": 0.0},
}
CHANGES = {"lr": 0.3, "betas": (0.5, 0.7), "eps": 0.1, "weight_decay": 0.4, "momentum": 0.6, "rho": 0.8}


def run(optimizer_of):
    """A point after three steps on a quadratic function."""
    point = torch.nn.Parameter(torch.tensor([3.0, -2.0]))
    optimizer = optimizer_of([point])
    for _ in range(3):
        optimizer.zero_grad()
        (point * torch.tensor([1.0, 2.0])).pow(2).sum().backward()
        optimizer.step()
    return point.detach()


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_those_of_pytorch_for_each_option(kind):
    for option in (None, *DEFAULTS[kind]):
        changed = {} if option is None else {option: CHANGES[option]}
        ours = TypeAdapter(OptimizerConfig).validate_python({"kind": kind, **changed})
        plain = run(lambda point, o=DEFAULTS[kind] | changed: KINDS[kind](point, **o, foreach=False))
        torch.testing.assert_close(run(ours.build), plain)


def test_nesterov_momentum_is_that_of_pytorch():
    options = {"lr": 0.1, "momentum": 0.6, "nesterov": True}
    ours = run(TypeAdapter(OptimizerConfig).validate_python({"kind": "sgd", **options}).build)
    plain = [
        run(lambda point, o=o: torch.optim.SGD(point, **o, foreach=False))
        for o in (options, options | {"nesterov": False})
    ]
    torch.testing.assert_close(ours, plain[0])
    assert not torch.equal(*plain)
    with pytest.raises(ValueError, match="needs `momentum` above 0"):
        TypeAdapter(OptimizerConfig).validate_python({"kind": "sgd", "nesterov": True})


@pytest.mark.parametrize("decay", [None, 0.9])
@pytest.mark.parametrize("options", [{"kind": kind} for kind in KINDS] + [{"kind": "sgd", "momentum": 0.9}], ids=str)
def test_memory_is_reserved_for_the_state_and_the_average(options, decay):
    config = TrainingConfig.model_validate({"optimizer": options, "ema_decay": decay})
    net = torch.nn.Linear(3, 5)
    net.bias.requires_grad_(False)
    optimizer = config.optimizer.build(parameter_groups(net, {}))
    reserved = reserve_optimizer_memory(net, optimizer, config)
    net(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    if decay:
        WeightAverage(optimizer, decay).update(1, torch.tensor(0.0))
    state = [value for values in optimizer.state.values() for value in values.values() if value.dim()]
    assert sorted(tensor.shape for tensor in reserved) == sorted(tensor.shape for tensor in state)
    assert reserve_optimizer_memory(net, optimizer, config) == [] or not state


# Vaswani et al. 2017, eq. 3: both terms of the minimum are equal at the end of the warm-up, which is the peak.
NOAM, PEAK = {"kind": "noam", "dim": 512, "warmup_updates": 4000}, 1 / math.sqrt(512 * 4000)
# Loshchilov and Hutter 2017, eq. 5: least + (1 - least) * (1 + cos(pi * t / T)) / 2, t counted from the warm-up.
COSINE = {"kind": "cosine", "total_updates": 110, "warmup_updates": 10}
PLATEAU = {"kind": "plateau", "factor": 0.5, "warmup_updates": 10}
# Luong et al. 2015, section 4.1: "after 5 epochs, we begin to halve the learning rate every epoch".
HALVING = {"kind": "halving", "start_epoch": 5}
FACTORS = [
    (NOAM, "update", {1: PEAK / 4000, 2000: PEAK / 2, 4000: PEAK, 16_000: PEAK / 2}),
    ({"kind": "inverse-sqrt", "warmup_updates": 100}, "update", {1: 0.01, 50: 0.5, 100: 1, 400: 0.5, 10_000: 0.1}),
    (COSINE, "update", {1: 0.1, 5: 0.5, 10: 1, 60: 0.5, 110: 0, 500: 0}),
    (COSINE | {"total_updates": 70}, "update", {30: 0.75}),
    (COSINE | {"min_lr_factor": 0.2}, "update", {60: 0.2 + 0.8 / 2, 999: 0.2}),
    ({"kind": "cosine", "total_updates": 4, "warmup_updates": 0}, "update", {4: 0}),
    ({"kind": "constant"}, "update", {1: 1, 10**6: 1}),
    ({"kind": "constant", "warmup_updates": 4}, "update", {1: 0.25, 3: 0.75, 4: 1, 9: 1}),
    (PLATEAU, "num_lr_drops", {0: 1, 1: 0.5, 2: 0.25, 3: 0.125}),
    (PLATEAU | {"warmup_updates": 200, "factor": 0.7}, "num_lr_drops", {2: 0.49 / 2}),
    (HALVING, "epoch", {0: 1, 4.99: 1, 5: 1 / 2, 5.99: 1 / 2, 6: 1 / 4, 7.5: 1 / 8, 11.99: 1 / 128}),
    (HALVING | {"every_epochs": 2}, "epoch", {4.9: 1, 5: 1 / 2, 6.9: 1 / 2, 7: 1 / 4, 9: 1 / 8}),
    (HALVING | {"start_epoch": 1.5, "every_epochs": 0.5}, "epoch", {1.49: 1, 1.5: 1 / 2, 2: 1 / 4, 2.5: 1 / 8}),
    (HALVING | {"start_epoch": 1, "every_epochs": 0.1}, "epoch", {1 + n / 10: 0.5 ** (n + 1) for n in range(20)}),
]


@pytest.mark.parametrize(("config", "at", "factors"), FACTORS)
def test_factors_are_those_of_the_formula(config, at, factors):
    schedule, point = TypeAdapter(LRScheduleConfig).validate_python(config), SchedulePoint(100, 0.0, 0)
    for value, factor in factors.items():
        assert schedule.lr_factor(replace(point, **{at: value})) == pytest.approx(factor, abs=1e-12)


@pytest.mark.parametrize("config", [{"kind": "plateau", "factor": 1.0}, {"kind": "noam"}, {"kind": "step"}])
def test_invalid_schedules_are_refused(config):
    with pytest.raises(ValidationError):
        TypeAdapter(LRScheduleConfig).validate_python(config)
