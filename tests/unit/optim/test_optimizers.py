"""Optimizers against PyTorch's with the same options, in its plain implementation."""

import pytest
import torch
from pydantic import TypeAdapter

from seq2attn.experiment.training_config import TrainingConfig
from seq2attn.optim.ema import WeightAverage
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
