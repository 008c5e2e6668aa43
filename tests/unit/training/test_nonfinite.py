"""Detection of NaN and infinity in losses, gradients and weights."""

import math

import pytest
import torch

from seq2attn.training.nonfinite import all_finite
from seq2attn.training.train_state import nonfinite_flag


@pytest.mark.parametrize(
    ("loss", "norm", "is_finite"),
    [(3.0, 1.0, True), (699.0, 1e30, True), (701.0, 1.0, False), (-701.0, 1.0, False)]
    + [(bad, 1.0, False) for bad in (math.nan, math.inf, -math.inf)]
    + [(3.0, bad, False) for bad in (math.nan, math.inf)],
)
def test_loss_and_gradient_must_both_be_finite(loss, norm, is_finite):
    flag = nonfinite_flag(torch.tensor(loss), torch.tensor(norm))
    assert float(flag) == (0.0 if is_finite else 1.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_weights_and_optimizer_state_are_checked(bad):
    model = torch.nn.Linear(2, 3)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    assert all_finite(model, optimizer)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert all_finite(model, optimizer)
    for tensor in (model.bias.data, optimizer.state[model.weight]["exp_avg"]):
        before = tensor.clone()
        tensor[-1] = bad
        assert not all_finite(model, optimizer)
        tensor.copy_(before)
    assert all_finite(model, optimizer)
