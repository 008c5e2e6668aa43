"""What counts as sound, and where the lines are that were not."""

from __future__ import annotations

import math

import pytest
import torch

from seq2attn.training.diverged import line_numbers
from seq2attn.training.soundness import are_finite, learnt, unsound


@pytest.mark.parametrize(
    ("loss", "norm", "is_sound"),
    [(3.0, 1.0, True), (699.0, 1e30, True), (701.0, 1.0, False), (-701.0, 1.0, False)]
    + [(bad, 1.0, False) for bad in (math.nan, math.inf, -math.inf)]
    + [(3.0, bad, False) for bad in (math.nan, math.inf)],
)
def test_loss_and_gradient_must_both_be_numbers(loss, norm, is_sound):
    found = unsound(torch.tensor(loss), torch.tensor(norm))
    assert float(found) == (0.0 if is_sound else 1.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_all_that_was_learnt_is_looked_at(bad):
    model = torch.nn.Linear(2, 3)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    assert are_finite(learnt(model, optimizer))
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert are_finite(learnt(model, optimizer))
    for tensor in (model.bias.data, optimizer.state[model.weight]["exp_avg"]):
        before = tensor.clone()
        tensor[-1] = bad
        assert not are_finite(learnt(model, optimizer))
        tensor.copy_(before)
    assert are_finite(learnt(model, optimizer))


@pytest.mark.parametrize("kept", [[0, 1, 2, 3], [1, 3], [3], []])
def test_lines_are_found_again(kept):
    read = [("a", "b"), ("c", "d"), ("e", "f"), ("a", "b")]
    found = line_numbers(read, [read[line] for line in kept], range(len(kept)))
    assert [read[line - 1] for line in found.values()] == [read[line] for line in kept]
    assert list(found) == list(range(len(kept)))
